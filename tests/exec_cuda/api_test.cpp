// The declarations of exec/cuda/api.hpp against NVIDIA's headers, where the build finds them.
#include "exec/cuda/api.hpp"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>)
#define BRAZE_HAS_CUDA_HEADERS
#include <cuda.h>
#include <nvrtc.h>

#include <type_traits>

namespace braze::cuda {
namespace {

/// What the calling convention sees of a type: its size, and pointer or not.
template <class Ours, class Theirs>
constexpr bool kSameType =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
    std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
/// And what a pointer points to, unless either is opaque.
template <class Ours, class Theirs>
constexpr bool kSamePointee = true;
template <class Ours, class Theirs>
  requires(sizeof(Ours) > 0 && sizeof(Theirs) > 0)
constexpr bool kSamePointee<Ours*, Theirs*> =
    kSameType<Ours, Theirs> && std::is_const_v<Ours> == std::is_const_v<Theirs>;

template <class Ours, class Theirs>
constexpr bool kSameFunction = false;
template <class R, class... Ours, class S, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
constexpr bool kSameFunction<R (*)(Ours...), S (*)(Theirs...)> =
    sizeof(R) == sizeof(S) && ((kSameType<Ours, Theirs> && kSamePointee<Ours, Theirs>) && ...);

static_assert(!kSameFunction<int (*)(int), int (*)(int*)>);
static_assert(!kSameFunction<int (*)(int*), int (*)(char*)>);

#define BRAZE_COMPARE(member, symbol, parameters) \
  static_assert(kSameFunction<decltype(api::DriverTable::member), decltype(&::symbol)>, #symbol);
BRAZE_DRIVER_FUNCTIONS(BRAZE_COMPARE)
#if CUDA_VERSION >= 12000
BRAZE_OPTIONAL_DRIVER_FUNCTIONS(BRAZE_COMPARE)
#endif
#undef BRAZE_COMPARE
#define BRAZE_COMPARE(member, symbol, parameters) \
  static_assert(kSameFunction<decltype(api::NvrtcTable::member), decltype(&::symbol)>, #symbol);
BRAZE_NVRTC_FUNCTIONS(BRAZE_COMPARE)
#undef BRAZE_COMPARE

#define BRAZE_SAME(ours, theirs) \
  static_assert(static_cast<int>(api::ours) == static_cast<int>(theirs))
BRAZE_SAME(kSuccess, CUDA_SUCCESS);
BRAZE_SAME(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
BRAZE_SAME(kNoDevice, CUDA_ERROR_NO_DEVICE);
BRAZE_SAME(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
BRAZE_SAME(kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
BRAZE_SAME(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
BRAZE_SAME(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
BRAZE_SAME(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
BRAZE_SAME(kAssert, CUDA_ERROR_ASSERT);
BRAZE_SAME(kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
BRAZE_SAME(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
BRAZE_SAME(kUnknown, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 12000
BRAZE_SAME(kMpsClientTerminated, CUDA_ERROR_MPS_CLIENT_TERMINATED);
#endif
#if CUDA_VERSION >= 13000
BRAZE_SAME(kContained, CUDA_ERROR_CONTAINED);
BRAZE_SAME(kTensorMemoryLeak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
BRAZE_SAME(DeviceAttribute::kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
BRAZE_SAME(DeviceAttribute::kMemoryClockKhz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
BRAZE_SAME(DeviceAttribute::kMemoryBusBits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
BRAZE_SAME(DeviceAttribute::kL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
BRAZE_SAME(DeviceAttribute::kCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
BRAZE_SAME(DeviceAttribute::kCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
BRAZE_SAME(DeviceAttribute::kSharedBytesOfBlock,
           CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
BRAZE_SAME(FunctionAttribute::kMaxDynamicSharedBytes,
           CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
BRAZE_SAME(FunctionAttribute::kNonPortableClusterSize,
           CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
BRAZE_SAME(CaptureMode::kRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
BRAZE_SAME(JitOption::kErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
BRAZE_SAME(JitOption::kErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
BRAZE_SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
BRAZE_SAME(kEventRecordExternal, CU_EVENT_RECORD_EXTERNAL);
BRAZE_SAME(kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
BRAZE_SAME(LaunchAttributeId::kClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
BRAZE_SAME(LaunchAttributeId::kProgrammaticStreamSerialization,
           CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
BRAZE_SAME(kNvrtcSuccess, NVRTC_SUCCESS);
BRAZE_SAME(kNvrtcOutOfMemory, NVRTC_ERROR_OUT_OF_MEMORY);
BRAZE_SAME(kNvrtcCompilation, NVRTC_ERROR_COMPILATION);
#if CUDA_VERSION >= 12000
BRAZE_SAME(MapType::kUint8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
BRAZE_SAME(MapType::kUint16, CU_TENSOR_MAP_DATA_TYPE_UINT16);
BRAZE_SAME(MapType::kInt32, CU_TENSOR_MAP_DATA_TYPE_INT32);
BRAZE_SAME(MapType::kInt64, CU_TENSOR_MAP_DATA_TYPE_INT64);
BRAZE_SAME(MapType::kFloat16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
BRAZE_SAME(MapType::kFloat32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
BRAZE_SAME(MapType::kFloat64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
BRAZE_SAME(MapType::kBfloat16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
BRAZE_SAME(MapInterleave::kNone, CU_TENSOR_MAP_INTERLEAVE_NONE);
BRAZE_SAME(MapSwizzle::kNone, CU_TENSOR_MAP_SWIZZLE_NONE);
BRAZE_SAME(MapSwizzle::k32, CU_TENSOR_MAP_SWIZZLE_32B);
BRAZE_SAME(MapSwizzle::k64, CU_TENSOR_MAP_SWIZZLE_64B);
BRAZE_SAME(MapSwizzle::k128, CU_TENSOR_MAP_SWIZZLE_128B);
BRAZE_SAME(MapPromotion::kNone, CU_TENSOR_MAP_L2_PROMOTION_NONE);
BRAZE_SAME(MapPromotion::k128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
BRAZE_SAME(MapPromotion::k256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
BRAZE_SAME(MapFill::kZero, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
static_assert(sizeof(api::TensorMap) == sizeof(CUtensorMap));
static_assert(alignof(api::TensorMap) >= alignof(CUtensorMap));
#endif
#undef BRAZE_SAME

static_assert(sizeof(api::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(api::LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(api::LaunchConfig, shared_bytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(api::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(api::LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(api::LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(api::LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(api::LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(api::LaunchAttributeValue) == sizeof(CUlaunchAttributeValue));
static_assert(offsetof(api::LaunchAttributeValue, cluster.z) ==
              offsetof(CUlaunchAttributeValue, clusterDim.z));
static_assert(sizeof(api::DeviceAddress) == sizeof(CUdeviceptr));

}  // namespace
}  // namespace braze::cuda
#endif

TEST(Api, IsThatOfTheHeaders) {
#ifdef BRAZE_HAS_CUDA_HEADERS
  SUCCEED() << "compared while compiling";
#else
  GTEST_SKIP() << "cuda.h and nvrtc.h were not found when this was built";
#endif
}
