// The declarations of exec/cuda/cudnn_api.hpp against NVIDIA's headers, where the build finds them.
#include "exec/cuda/cudnn_api.hpp"

#include <gtest/gtest.h>

#include "kernels/cuda/cudnn_problem.hpp"

#if __has_include(<cudnn_graph.h>) && __has_include(<cuda_runtime_api.h>)
#define BRAZE_HAS_CUDNN_HEADERS
#include <cudnn_graph.h>

#include <type_traits>

namespace braze::cuda {
namespace {

/// What the calling convention sees of a type: its size, and pointer or not.
template <class Ours, class Theirs>
constexpr bool kSame = std::is_void_v<Ours> && std::is_void_v<Theirs>;
template <class Ours, class Theirs>
  requires(!std::is_void_v<Ours> && !std::is_void_v<Theirs>)
constexpr bool kSame<Ours, Theirs> =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

template <class Ours, class Theirs>
constexpr bool kSameFunction = false;
template <class R, class... Ours, class S, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
constexpr bool kSameFunction<R (*)(Ours...), S (*)(Theirs...)> =
    kSame<R, S> && (kSame<Ours, Theirs> && ...);

#define BRAZE_COMPARE(member, symbol, result, parameters) \
  static_assert(kSameFunction<decltype(api::CudnnTable::member), decltype(&::symbol)>, #symbol);
BRAZE_CUDNN_FUNCTIONS(BRAZE_COMPARE)
#undef BRAZE_COMPARE

#define BRAZE_SAME(ours, theirs) \
  static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #theirs)
BRAZE_SAME(api::kCudnnSuccess, CUDNN_STATUS_SUCCESS);

using Kind = api::CudnnDescriptorType;
BRAZE_SAME(Kind::kPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
BRAZE_SAME(Kind::kConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
BRAZE_SAME(Kind::kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
BRAZE_SAME(Kind::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
BRAZE_SAME(Kind::kEngineHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
BRAZE_SAME(Kind::kExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
BRAZE_SAME(Kind::kConvolutionForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
BRAZE_SAME(Kind::kConvolutionBackwardData,
           CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
BRAZE_SAME(Kind::kOperationPointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
BRAZE_SAME(Kind::kOperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
BRAZE_SAME(Kind::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
BRAZE_SAME(Kind::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

using Attribute = api::CudnnAttribute;
BRAZE_SAME(Attribute::kPointwiseMode, CUDNN_ATTR_POINTWISE_MODE);
BRAZE_SAME(Attribute::kPointwiseMathPrecision, CUDNN_ATTR_POINTWISE_MATH_PREC);
BRAZE_SAME(Attribute::kPointwiseNanPropagation, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION);
BRAZE_SAME(Attribute::kPointwiseReluLowerClip, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP);
BRAZE_SAME(Attribute::kPointwiseReluUpperClip, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP);
BRAZE_SAME(Attribute::kPointwiseReluLowerClipSlope, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE);
BRAZE_SAME(Attribute::kPointwiseEluAlpha, CUDNN_ATTR_POINTWISE_ELU_ALPHA);
BRAZE_SAME(Attribute::kConvolutionComputeType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
BRAZE_SAME(Attribute::kConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
BRAZE_SAME(Attribute::kConvolutionDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
BRAZE_SAME(Attribute::kConvolutionStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
BRAZE_SAME(Attribute::kConvolutionPostPaddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
BRAZE_SAME(Attribute::kConvolutionPrePaddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
BRAZE_SAME(Attribute::kConvolutionSpatialDims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
BRAZE_SAME(Attribute::kHeuristicMode, CUDNN_ATTR_ENGINEHEUR_MODE);
BRAZE_SAME(Attribute::kHeuristicOperationGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
BRAZE_SAME(Attribute::kHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
BRAZE_SAME(Attribute::kConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
BRAZE_SAME(Attribute::kPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
BRAZE_SAME(Attribute::kPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
BRAZE_SAME(Attribute::kPlanWorkspaceSize, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
BRAZE_SAME(Attribute::kForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
BRAZE_SAME(Attribute::kForwardBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
BRAZE_SAME(Attribute::kForwardConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
BRAZE_SAME(Attribute::kForwardW, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
BRAZE_SAME(Attribute::kForwardX, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
BRAZE_SAME(Attribute::kForwardY, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
BRAZE_SAME(Attribute::kBackwardDataAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
BRAZE_SAME(Attribute::kBackwardDataBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
BRAZE_SAME(Attribute::kBackwardDataConvolution,
           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
BRAZE_SAME(Attribute::kBackwardDataW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
BRAZE_SAME(Attribute::kBackwardDataDx, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
BRAZE_SAME(Attribute::kBackwardDataDy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
BRAZE_SAME(Attribute::kPointwiseDescriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
BRAZE_SAME(Attribute::kPointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
BRAZE_SAME(Attribute::kPointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
BRAZE_SAME(Attribute::kPointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
BRAZE_SAME(Attribute::kGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
BRAZE_SAME(Attribute::kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
BRAZE_SAME(Attribute::kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
BRAZE_SAME(Attribute::kTensorDataType, CUDNN_ATTR_TENSOR_DATA_TYPE);
BRAZE_SAME(Attribute::kTensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
BRAZE_SAME(Attribute::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
BRAZE_SAME(Attribute::kTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
BRAZE_SAME(Attribute::kTensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
BRAZE_SAME(Attribute::kPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
BRAZE_SAME(Attribute::kPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
BRAZE_SAME(Attribute::kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
BRAZE_SAME(Attribute::kEngineNumericalNote, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
BRAZE_SAME(Attribute::kEngineBehaviorNote, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE);

using Type = api::CudnnType;
BRAZE_SAME(Type::kHandle, CUDNN_TYPE_HANDLE);
BRAZE_SAME(Type::kDataType, CUDNN_TYPE_DATA_TYPE);
BRAZE_SAME(Type::kBoolean, CUDNN_TYPE_BOOLEAN);
BRAZE_SAME(Type::kInt64, CUDNN_TYPE_INT64);
BRAZE_SAME(Type::kFloat, CUDNN_TYPE_FLOAT);
BRAZE_SAME(Type::kDouble, CUDNN_TYPE_DOUBLE);
BRAZE_SAME(Type::kVoidPointer, CUDNN_TYPE_VOID_PTR);
BRAZE_SAME(Type::kConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE);
BRAZE_SAME(Type::kHeuristicMode, CUDNN_TYPE_HEUR_MODE);
BRAZE_SAME(Type::kNanPropagation, CUDNN_TYPE_NAN_PROPOGATION);
BRAZE_SAME(Type::kNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE);
BRAZE_SAME(Type::kPointwiseMode, CUDNN_TYPE_POINTWISE_MODE);
BRAZE_SAME(Type::kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
BRAZE_SAME(Type::kBehaviorNote, CUDNN_TYPE_BEHAVIOR_NOTE);

BRAZE_SAME(api::CudnnDataType::kFloat, CUDNN_DATA_FLOAT);
BRAZE_SAME(api::CudnnDataType::kHalf, CUDNN_DATA_HALF);
BRAZE_SAME(api::CudnnDataType::kBfloat16, CUDNN_DATA_BFLOAT16);
BRAZE_SAME(api::CudnnConvolutionMode::kCrossCorrelation, CUDNN_CROSS_CORRELATION);
BRAZE_SAME(api::CudnnNan::kPropagate, CUDNN_PROPAGATE_NAN);
BRAZE_SAME(api::CudnnHeuristic::kFallback, CUDNN_HEUR_MODE_FALLBACK);
BRAZE_SAME(api::CudnnHeuristic::kA, CUDNN_HEUR_MODE_A);

using Note = api::CudnnNumericalNote;
BRAZE_SAME(Note::kTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
BRAZE_SAME(Note::kDownConvertInputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
BRAZE_SAME(Note::kReducedPrecisionReduction, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
BRAZE_SAME(Note::kFft, CUDNN_NUMERICAL_NOTE_FFT);
BRAZE_SAME(Note::kNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
BRAZE_SAME(Note::kWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD);
BRAZE_SAME(Note::kWinogradTile6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6);
BRAZE_SAME(Note::kWinogradTile13x13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
BRAZE_SAME(api::CudnnBehaviorNote::kRuntimeCompilation, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);

BRAZE_SAME(PointwiseMode::kAdd, CUDNN_POINTWISE_ADD);
BRAZE_SAME(PointwiseMode::kMul, CUDNN_POINTWISE_MUL);
BRAZE_SAME(PointwiseMode::kDiv, CUDNN_POINTWISE_DIV);
BRAZE_SAME(PointwiseMode::kSub, CUDNN_POINTWISE_SUB);
BRAZE_SAME(PointwiseMode::kRelu, CUDNN_POINTWISE_RELU_FWD);
BRAZE_SAME(PointwiseMode::kTanh, CUDNN_POINTWISE_TANH_FWD);
BRAZE_SAME(PointwiseMode::kSigmoid, CUDNN_POINTWISE_SIGMOID_FWD);
BRAZE_SAME(PointwiseMode::kElu, CUDNN_POINTWISE_ELU_FWD);
BRAZE_SAME(PointwiseMode::kGelu, CUDNN_POINTWISE_GELU_FWD);
BRAZE_SAME(PointwiseMode::kSoftplus, CUDNN_POINTWISE_SOFTPLUS_FWD);
BRAZE_SAME(PointwiseMode::kSwish, CUDNN_POINTWISE_SWISH_FWD);
BRAZE_SAME(PointwiseMode::kGeluTanh, CUDNN_POINTWISE_GELU_APPROX_TANH_FWD);
#undef BRAZE_SAME

}  // namespace
}  // namespace braze::cuda
#endif

TEST(CudnnApi, IsThatOfTheHeaders) {
#ifdef BRAZE_HAS_CUDNN_HEADERS
  SUCCEED() << "compared while compiling";
#else
  GTEST_SKIP() << "cudnn_graph.h and cuda_runtime_api.h were not found when this was built";
#endif
}
