#include "exec/cuda/cudnn_graph.hpp"

namespace braze::cuda {
namespace {

using Attribute = api::CudnnAttribute;
using Type = api::CudnnType;
using Kind = api::CudnnDescriptorType;

api::CudnnDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return api::CudnnDataType::kFloat;
    case DType::kFloat16:
      return api::CudnnDataType::kHalf;
    case DType::kBFloat16:
      return api::CudnnDataType::kBfloat16;
    default:
      fail(ErrorCode::kInternal, "cuDNN was asked for {}", to_string(dtype));
  }
}

/// Collects the descriptors of one problem.
class GraphBuilder {
 public:
  GraphBuilder(const Cudnn& cudnn, api::CudnnHandle handle, const CudnnProblem& problem)
      : cudnn_(cudnn), handle_(handle), problem_(problem) {}

  /// conv(x, w) -> virtual tensors, one per step -> y
  CudnnGraph build() {
    const std::size_t x = tensor(problem_.x, next_id_++);
    const std::size_t w = tensor(problem_.w, next_id_++);
    const std::size_t y = tensor(problem_.y, next_id_++);
    std::size_t result = problem_.steps.empty() ? y : between();
    convolution(x, w, result);
    for (std::size_t i = 0; i < problem_.steps.size(); ++i) {
      const std::size_t from = result;
      result = i + 1 == problem_.steps.size() ? y : between();
      pointwise(problem_.steps[i], from, result);
    }
    CudnnDescriptor graph(cudnn_, Kind::kOperationGraph);
    graph.set(Attribute::kGraphHandle, Type::kHandle, handle_);
    std::vector<api::CudnnDescriptor> operations;
    for (const std::size_t operation : operations_) operations.push_back(parts_[operation].get());
    graph.set(Attribute::kGraphOperations, Type::kDescriptor,
              std::span<const api::CudnnDescriptor>(operations));
    keep(std::move(graph));
    return {std::move(parts_)};
  }

 private:
  /// Ids of tensors that are never in memory are of their own.
  static constexpr std::int64_t kFirstVirtual = 1000;

  std::size_t keep(CudnnDescriptor descriptor) {
    descriptor.finalize();
    parts_.push_back(std::move(descriptor));
    return parts_.size() - 1;
  }

  std::size_t tensor(const CudnnTensor& shape, std::int64_t id) {
    CudnnDescriptor tensor(cudnn_, Kind::kTensor);
    tensor.set(Attribute::kTensorDataType, Type::kDataType, data_type(shape.dtype));
    tensor.set(Attribute::kTensorDimensions, shape.extents);
    tensor.set(Attribute::kTensorStrides, shape.strides);
    tensor.set(Attribute::kTensorAlignment, Type::kInt64, shape.alignment);
    tensor.set(Attribute::kTensorId, Type::kInt64, id);
    if (id >= kFirstVirtual) tensor.set(Attribute::kTensorIsVirtual, Type::kBoolean, true);
    return keep(std::move(tensor));
  }

  /// What an operation hands to the next one: like the result, in fp32.
  std::size_t between() {
    CudnnTensor like = problem_.y;
    like.dtype = DType::kFloat32;
    return tensor(like, next_virtual_++);
  }

  void convolution(std::size_t x, std::size_t w, std::size_t y) {
    CudnnDescriptor window(cudnn_, Kind::kConvolution);
    window.set(Attribute::kConvolutionComputeType, Type::kDataType, api::CudnnDataType::kFloat);
    window.set(Attribute::kConvolutionMode, Type::kConvolutionMode,
               api::CudnnConvolutionMode::kCrossCorrelation);
    window.set(Attribute::kConvolutionSpatialDims, Type::kInt64, std::ssize(problem_.strides));
    window.set(Attribute::kConvolutionStrides, problem_.strides);
    window.set(Attribute::kConvolutionDilations, problem_.dilations);
    window.set(Attribute::kConvolutionPrePaddings, problem_.pads_begin);
    window.set(Attribute::kConvolutionPostPaddings, problem_.pads_end);
    const std::size_t described = keep(std::move(window));

    const bool forward = !problem_.transposed;
    CudnnDescriptor operation(cudnn_,
                              forward ? Kind::kConvolutionForward : Kind::kConvolutionBackwardData);
    operation.set(forward ? Attribute::kForwardConvolution : Attribute::kBackwardDataConvolution,
                  parts_[described]);
    operation.set(forward ? Attribute::kForwardX : Attribute::kBackwardDataDy, parts_[x]);
    operation.set(forward ? Attribute::kForwardW : Attribute::kBackwardDataW, parts_[w]);
    operation.set(forward ? Attribute::kForwardY : Attribute::kBackwardDataDx, parts_[y]);
    operation.set(forward ? Attribute::kForwardAlpha : Attribute::kBackwardDataAlpha, Type::kFloat,
                  1.0F);
    operation.set(forward ? Attribute::kForwardBeta : Attribute::kBackwardDataBeta, Type::kFloat,
                  0.0F);
    operations_.push_back(keep(std::move(operation)));
  }

  void pointwise(const CudnnStep& step, std::size_t from, std::size_t to) {
    CudnnDescriptor mode(cudnn_, Kind::kPointwise);
    mode.set(Attribute::kPointwiseMode, Type::kPointwiseMode, step.mode);
    mode.set(Attribute::kPointwiseMathPrecision, Type::kDataType, api::CudnnDataType::kFloat);
    if (step.mode == PointwiseMode::kRelu)
      mode.set(Attribute::kPointwiseNanPropagation, Type::kNanPropagation,
               api::CudnnNan::kPropagate);
    for (const auto& [attribute, value] :
         {std::pair(Attribute::kPointwiseReluLowerClip, step.lower),
          {Attribute::kPointwiseReluUpperClip, step.upper},
          {Attribute::kPointwiseReluLowerClipSlope, step.slope},
          {Attribute::kPointwiseEluAlpha, step.alpha}})
      if (value) mode.set(attribute, Type::kDouble, *value);
    const std::size_t described = keep(std::move(mode));

    CudnnDescriptor operation(cudnn_, Kind::kOperationPointwise);
    operation.set(Attribute::kPointwiseDescriptor, parts_[described]);
    operation.set(Attribute::kPointwiseX, parts_[from]);
    if (step.operand)
      operation.set(Attribute::kPointwiseB, parts_[tensor(*step.operand, next_id_++)]);
    operation.set(Attribute::kPointwiseY, parts_[to]);
    operations_.push_back(keep(std::move(operation)));
  }

  const Cudnn& cudnn_;
  api::CudnnHandle handle_;
  const CudnnProblem& problem_;
  std::vector<CudnnDescriptor> parts_;
  std::vector<std::size_t> operations_;  // in parts_
  std::int64_t next_id_ = 1;
  std::int64_t next_virtual_ = kFirstVirtual;
};

}  // namespace

CudnnDescriptor::CudnnDescriptor(const Cudnn& cudnn, api::CudnnDescriptorType type)
    : cudnn_(&cudnn) {
  const api::CudnnStatus status = cudnn.create_descriptor(type, &handle_);
  if (status != api::kCudnnSuccess)
    fail(ErrorCode::kUnsupported, "descriptor of type {}: {}", static_cast<int>(type),
         cudnn.describe(status));
}

CudnnDescriptor::~CudnnDescriptor() {
  if (handle_ != nullptr) cudnn_->destroy_descriptor(handle_);
}

void CudnnDescriptor::finalize() {
  const api::CudnnStatus status = cudnn_->finalize(handle_);
  if (status != api::kCudnnSuccess) fail(ErrorCode::kUnsupported, "{}", cudnn_->describe(status));
}

void CudnnDescriptor::check(api::CudnnStatus status, const char* doing,
                            api::CudnnAttribute attribute) const {
  if (status != api::kCudnnSuccess)
    fail(ErrorCode::kUnsupported, "{} attribute {}: {}", doing, static_cast<int>(attribute),
         cudnn_->describe(status));
}

CudnnGraph make_graph(const Cudnn& cudnn, api::CudnnHandle handle, const CudnnProblem& problem) {
  return GraphBuilder(cudnn, handle, problem).build();
}

}  // namespace braze::cuda
