// The parts of cuDNN's graph API that Braze calls, declared here so that building needs no header
// of NVIDIA's. tests/exec_cuda/cudnn_api_test.cpp compares them with cudnn.h where that is found.
//
// A descriptor is made, given attributes (arrays of one type each) and finalised; tensors and
// operations make a graph, heuristics propose engine configurations for it, of which an execution
// plan is made, and that runs with the addresses of a variant pack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/api.hpp"

namespace braze::cuda::api {

using CudnnStatus = int;
using CudnnHandle = struct CudnnHandleTag*;
using CudnnDescriptor = void*;

/// By thousands: 1 initialisation, 2 bad parameter, 3 not supported, 4 internal, 5 execution.
inline constexpr CudnnStatus kCudnnSuccess = 0;

enum class CudnnDescriptorType : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristic = 4,
  kExecutionPlan = 5,
  kConvolutionForward = 10,
  kConvolutionBackwardData = 12,
  kOperationPointwise = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
};

enum class CudnnAttribute : int {
  kPointwiseMode = 0,
  kPointwiseMathPrecision = 1,
  kPointwiseNanPropagation = 2,
  kPointwiseReluLowerClip = 3,
  kPointwiseReluUpperClip = 4,
  kPointwiseReluLowerClipSlope = 5,
  kPointwiseEluAlpha = 6,
  kConvolutionComputeType = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPostPaddings = 104,
  kConvolutionPrePaddings = 105,
  kConvolutionSpatialDims = 106,
  kHeuristicMode = 200,
  kHeuristicOperationGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspaceSize = 402,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kBackwardDataAlpha = 706,
  kBackwardDataBeta = 707,
  kBackwardDataConvolution = 708,
  kBackwardDataW = 709,
  kBackwardDataDx = 710,
  kBackwardDataDy = 711,
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNumericalNote = 1303,
  kEngineBehaviorNote = 1305,
};

/// What an attribute's elements are.
enum class CudnnType : int {
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kFloat = 4,
  kDouble = 5,
  kVoidPointer = 6,
  kConvolutionMode = 7,
  kHeuristicMode = 8,
  kNanPropagation = 10,
  kNumericalNote = 11,
  kPointwiseMode = 14,
  kDescriptor = 15,
  kBehaviorNote = 19,
};

enum class CudnnDataType : int { kFloat = 0, kHalf = 2, kBfloat16 = 9 };
enum class CudnnConvolutionMode : int { kCrossCorrelation = 1 };
enum class CudnnNan : int { kPropagate = 1 };
enum class CudnnHeuristic : int { kFallback = 2, kA = 3 };

enum class CudnnNumericalNote : int {
  kTensorCore = 0,
  kDownConvertInputs = 1,
  kReducedPrecisionReduction = 2,
  kFft = 3,
  kNondeterministic = 4,
  kWinograd = 5,
  kWinogradTile6x6 = 7,
  kWinogradTile13x13 = 8,
};
enum class CudnnBehaviorNote : int { kRuntimeCompilation = 0 };

#define BRAZE_CUDNN_FUNCTIONS(F)                                                            \
  F(create, cudnnCreate, CudnnStatus, (CudnnHandle*))                                       \
  F(destroy, cudnnDestroy, CudnnStatus, (CudnnHandle))                                      \
  F(set_stream, cudnnSetStream, CudnnStatus, (CudnnHandle, Stream))                         \
  F(get_error_string, cudnnGetErrorString, const char*, (CudnnStatus))                      \
  F(get_last_error_string, cudnnGetLastErrorString, void, (char* text, std::size_t bytes))  \
  F(create_descriptor, cudnnBackendCreateDescriptor, CudnnStatus,                           \
    (CudnnDescriptorType, CudnnDescriptor*))                                                \
  F(destroy_descriptor, cudnnBackendDestroyDescriptor, CudnnStatus, (CudnnDescriptor))      \
  F(set_attribute, cudnnBackendSetAttribute, CudnnStatus,                                   \
    (CudnnDescriptor, CudnnAttribute, CudnnType, std::int64_t count, const void* elements)) \
  F(get_attribute, cudnnBackendGetAttribute, CudnnStatus,                                   \
    (CudnnDescriptor, CudnnAttribute, CudnnType, std::int64_t asked, std::int64_t* count,   \
     void* elements))                                                                       \
  F(finalize, cudnnBackendFinalize, CudnnStatus, (CudnnDescriptor))                         \
  F(execute, cudnnBackendExecute, CudnnStatus,                                              \
    (CudnnHandle, CudnnDescriptor plan, CudnnDescriptor variant_pack))

// clang-format off
#define BRAZE_MEMBER(member, symbol, result, parameters) result (*member) parameters = nullptr;  // NOLINT(bugprone-macro-parentheses): declarators
// clang-format on
struct CudnnTable {
  BRAZE_CUDNN_FUNCTIONS(BRAZE_MEMBER)
};
#undef BRAZE_MEMBER

}  // namespace braze::cuda::api
