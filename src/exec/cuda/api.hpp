// The parts of the CUDA driver API and of NVRTC that Braze calls, declared here so that building
// needs no header of NVIDIA's. tests/exec_cuda/api_test.cpp compares them with cuda.h and nvrtc.h
// where those are found.
//
// Every function is named once, in a list F(member, symbol, (parameters)), from which the tables of
// function pointers, their loading and the test are made.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braze::cuda::api {

// ---- Driver: handles and numbers

using Result = int;  // CUresult
using DeviceId = int;
using DeviceAddress = unsigned long long;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Event = struct EventTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;
using HostFunction = void (*)(void*);

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kEccUncorrectable = 214;
inline constexpr Result kNvlinkUncorrectable = 220;
inline constexpr Result kContained = 226;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kLaunchTimeout = 702;
inline constexpr Result kContextIsDestroyed = 709;
inline constexpr Result kAssert = 710;
inline constexpr Result kHardwareStackError = 714;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kTensorMemoryLeak = 721;
inline constexpr Result kMpsClientTerminated = 810;
inline constexpr Result kUnknown = 999;

enum class DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kMemoryClockKhz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedBytesOfBlock = 97,  // with opt-in
};
enum class FunctionAttribute : int { kMaxDynamicSharedBytes = 8, kNonPortableClusterSize = 14 };
enum class CaptureMode : int { kRelaxed = 2 };
enum class CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };
enum class JitOption : int { kErrorLogBuffer = 5, kErrorLogBytes = 6 };

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventRecordExternal = 1;  // in a capture: makes an event record node
inline constexpr unsigned kHostAllocPortable = 1;

// ---- Driver: launches

enum class LaunchAttributeId : int {
  kClusterDimension = 4,
  kProgrammaticStreamSerialization = 6,
};

union LaunchAttributeValue {
  char bytes[64];
  struct {
    unsigned x, y, z;
  } cluster;
  int programmatic_stream_serialization;
};

struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[8 - sizeof(LaunchAttributeId)];
  LaunchAttributeValue value;
};

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// ---- Driver: tensor maps (TMA descriptors)

struct alignas(128) TensorMap {
  std::uint64_t opaque[16];
};

enum class MapType : int {
  kUint8 = 0,
  kUint16 = 1,
  kInt32 = 3,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};
enum class MapInterleave : int { kNone = 0 };
enum class MapSwizzle : int { kNone = 0, k32 = 1, k64 = 2, k128 = 3 };
enum class MapPromotion : int { kNone = 0, k128 = 2, k256 = 3 };
enum class MapFill : int { kZero = 0 };

// ---- Driver: functions

#define BRAZE_DRIVER_FUNCTIONS(F)                                                                  \
  F(init, cuInit, (unsigned flags))                                                                \
  F(driver_get_version, cuDriverGetVersion, (int* version))                                        \
  F(get_error_name, cuGetErrorName, (Result, const char**))                                        \
  F(get_error_string, cuGetErrorString, (Result, const char**))                                    \
  F(device_get_count, cuDeviceGetCount, (int* count))                                              \
  F(device_get, cuDeviceGet, (DeviceId*, int ordinal))                                             \
  F(device_get_name, cuDeviceGetName, (char* name, int bytes, DeviceId))                           \
  F(device_get_attribute, cuDeviceGetAttribute, (int* value, DeviceAttribute, DeviceId))           \
  F(device_total_mem, cuDeviceTotalMem_v2, (std::size_t*, DeviceId))                               \
  F(device_primary_ctx_retain, cuDevicePrimaryCtxRetain, (Context*, DeviceId))                     \
  F(device_primary_ctx_release, cuDevicePrimaryCtxRelease_v2, (DeviceId))                          \
  F(ctx_push_current, cuCtxPushCurrent_v2, (Context))                                              \
  F(ctx_pop_current, cuCtxPopCurrent_v2, (Context*))                                               \
  F(mem_get_info, cuMemGetInfo_v2, (std::size_t* unused, std::size_t* total))                      \
  F(mem_alloc, cuMemAlloc_v2, (DeviceAddress*, std::size_t bytes))                                 \
  F(mem_free, cuMemFree_v2, (DeviceAddress))                                                       \
  F(mem_host_alloc, cuMemHostAlloc, (void**, std::size_t bytes, unsigned flags))                   \
  F(mem_free_host, cuMemFreeHost, (void*))                                                         \
  F(memcpy_to_device, cuMemcpyHtoDAsync_v2,                                                        \
    (DeviceAddress, const void*, std::size_t bytes, Stream))                                       \
  F(memcpy_to_host, cuMemcpyDtoHAsync_v2, (void*, DeviceAddress, std::size_t bytes, Stream))       \
  F(memcpy_on_device, cuMemcpyDtoDAsync_v2,                                                        \
    (DeviceAddress, DeviceAddress, std::size_t bytes, Stream))                                     \
  F(stream_create, cuStreamCreate, (Stream*, unsigned flags))                                      \
  F(stream_destroy, cuStreamDestroy_v2, (Stream))                                                  \
  F(stream_synchronize, cuStreamSynchronize, (Stream))                                             \
  F(stream_wait_event, cuStreamWaitEvent, (Stream, Event, unsigned flags))                         \
  F(stream_is_capturing, cuStreamIsCapturing, (Stream, CaptureStatus*))                            \
  F(stream_begin_capture, cuStreamBeginCapture_v2, (Stream, CaptureMode))                          \
  F(stream_end_capture, cuStreamEndCapture, (Stream, Graph*))                                      \
  F(module_load_data, cuModuleLoadDataEx,                                                          \
    (Module*, const void* image, unsigned options, JitOption*, void** values))                     \
  F(module_unload, cuModuleUnload, (Module))                                                       \
  F(module_get_function, cuModuleGetFunction, (Function*, Module, const char* name))               \
  F(func_set_attribute, cuFuncSetAttribute, (Function, FunctionAttribute, int value))              \
  F(launch_kernel, cuLaunchKernelEx,                                                               \
    (const LaunchConfig*, Function, void** parameters, void** extra))                              \
  F(launch_host_func, cuLaunchHostFunc, (Stream, HostFunction, void* argument))                    \
  F(graph_instantiate, cuGraphInstantiateWithFlags, (GraphExec*, Graph, unsigned long long flags)) \
  F(graph_upload, cuGraphUpload, (GraphExec, Stream))                                              \
  F(graph_launch, cuGraphLaunch, (GraphExec, Stream))                                              \
  F(graph_exec_destroy, cuGraphExecDestroy, (GraphExec))                                           \
  F(graph_destroy, cuGraphDestroy, (Graph))                                                        \
  F(event_create, cuEventCreate, (Event*, unsigned flags))                                         \
  F(event_record, cuEventRecord, (Event, Stream))                                                  \
  F(event_record_with_flags, cuEventRecordWithFlags, (Event, Stream, unsigned flags))              \
  F(event_synchronize, cuEventSynchronize, (Event))                                                \
  F(event_elapsed_time, cuEventElapsedTime, (float* milliseconds, Event, Event))                   \
  F(event_destroy, cuEventDestroy_v2, (Event))

/// Those that a driver may lack: TMA and numbers of streams came with CUDA 12.0.
#define BRAZE_OPTIONAL_DRIVER_FUNCTIONS(F)                                                      \
  F(stream_get_id, cuStreamGetId, (Stream, unsigned long long* id))                             \
  F(tensor_map_encode_tiled, cuTensorMapEncodeTiled,                                            \
    (TensorMap*, MapType, std::uint32_t rank, void* address, const std::uint64_t* extents,      \
     const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* steps,        \
     MapInterleave, MapSwizzle, MapPromotion, MapFill))                                         \
  F(tensor_map_encode_im2col, cuTensorMapEncodeIm2col,                                          \
    (TensorMap*, MapType, std::uint32_t rank, void* address, const std::uint64_t* extents,      \
     const std::uint64_t* strides, const int* lower, const int* upper, std::uint32_t channels,  \
     std::uint32_t pixels, const std::uint32_t* steps, MapInterleave, MapSwizzle, MapPromotion, \
     MapFill))

// ---- NVRTC

using NvrtcResult = int;
using NvrtcProgram = struct NvrtcProgramTag*;

inline constexpr NvrtcResult kNvrtcSuccess = 0;
inline constexpr NvrtcResult kNvrtcOutOfMemory = 1;
inline constexpr NvrtcResult kNvrtcCompilation = 6;

#define BRAZE_NVRTC_FUNCTIONS(F)                                                                 \
  F(version, nvrtcVersion, (int* major, int* minor))                                             \
  F(get_num_supported_archs, nvrtcGetNumSupportedArchs, (int* count))                            \
  F(get_supported_archs, nvrtcGetSupportedArchs, (int* archs))                                   \
  F(create_program, nvrtcCreateProgram,                                                          \
    (NvrtcProgram*, const char* source, const char* name, int headers, const char* const* texts, \
     const char* const* names))                                                                  \
  F(destroy_program, nvrtcDestroyProgram, (NvrtcProgram*))                                       \
  F(compile_program, nvrtcCompileProgram, (NvrtcProgram, int count, const char* const* options)) \
  F(get_program_log_size, nvrtcGetProgramLogSize, (NvrtcProgram, std::size_t*))                  \
  F(get_program_log, nvrtcGetProgramLog, (NvrtcProgram, char*))                                  \
  F(get_cubin_size, nvrtcGetCUBINSize, (NvrtcProgram, std::size_t*))                             \
  F(get_cubin, nvrtcGetCUBIN, (NvrtcProgram, char*))                                             \
  F(get_ptx_size, nvrtcGetPTXSize, (NvrtcProgram, std::size_t*))                                 \
  F(get_ptx, nvrtcGetPTX, (NvrtcProgram, char*))

// ---- Tables

// clang-format off
#define BRAZE_MEMBER(member, symbol, parameters) int (*member) parameters = nullptr;  // NOLINT(bugprone-macro-parentheses): declarators
// clang-format on
struct DriverTable {
  BRAZE_DRIVER_FUNCTIONS(BRAZE_MEMBER)
  BRAZE_OPTIONAL_DRIVER_FUNCTIONS(BRAZE_MEMBER)
};
struct NvrtcTable {
  BRAZE_NVRTC_FUNCTIONS(BRAZE_MEMBER)
};
#undef BRAZE_MEMBER

}  // namespace braze::cuda::api
