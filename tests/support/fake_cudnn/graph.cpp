#include "support/fake_cudnn/graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

namespace braze::cuda::fake {
namespace {

using api::CudnnAttribute;
using api::CudnnDescriptorType;
using api::CudnnType;

/// The descriptor and the type of an attribute that can be set.
struct Rule {
  CudnnDescriptorType descriptor;
  CudnnType type;
};
const std::map<CudnnAttribute, Rule>& rules() {
  using enum CudnnAttribute;
  using D = CudnnDescriptorType;
  using T = CudnnType;
  static const std::map<CudnnAttribute, Rule> all = {
      {kPointwiseMode, {D::kPointwise, T::kPointwiseMode}},
      {kPointwiseMathPrecision, {D::kPointwise, T::kDataType}},
      {kPointwiseNanPropagation, {D::kPointwise, T::kNanPropagation}},
      {kPointwiseReluLowerClip, {D::kPointwise, T::kDouble}},
      {kPointwiseReluUpperClip, {D::kPointwise, T::kDouble}},
      {kPointwiseReluLowerClipSlope, {D::kPointwise, T::kDouble}},
      {kPointwiseEluAlpha, {D::kPointwise, T::kDouble}},
      {kConvolutionComputeType, {D::kConvolution, T::kDataType}},
      {kConvolutionMode, {D::kConvolution, T::kConvolutionMode}},
      {kConvolutionDilations, {D::kConvolution, T::kInt64}},
      {kConvolutionStrides, {D::kConvolution, T::kInt64}},
      {kConvolutionPostPaddings, {D::kConvolution, T::kInt64}},
      {kConvolutionPrePaddings, {D::kConvolution, T::kInt64}},
      {kConvolutionSpatialDims, {D::kConvolution, T::kInt64}},
      {kHeuristicMode, {D::kEngineHeuristic, T::kHeuristicMode}},
      {kHeuristicOperationGraph, {D::kEngineHeuristic, T::kDescriptor}},
      {kPlanHandle, {D::kExecutionPlan, T::kHandle}},
      {kPlanConfig, {D::kExecutionPlan, T::kDescriptor}},
      {kForwardAlpha, {D::kConvolutionForward, T::kFloat}},
      {kForwardBeta, {D::kConvolutionForward, T::kFloat}},
      {kForwardConvolution, {D::kConvolutionForward, T::kDescriptor}},
      {kForwardW, {D::kConvolutionForward, T::kDescriptor}},
      {kForwardX, {D::kConvolutionForward, T::kDescriptor}},
      {kForwardY, {D::kConvolutionForward, T::kDescriptor}},
      {kBackwardDataAlpha, {D::kConvolutionBackwardData, T::kFloat}},
      {kBackwardDataBeta, {D::kConvolutionBackwardData, T::kFloat}},
      {kBackwardDataConvolution, {D::kConvolutionBackwardData, T::kDescriptor}},
      {kBackwardDataW, {D::kConvolutionBackwardData, T::kDescriptor}},
      {kBackwardDataDx, {D::kConvolutionBackwardData, T::kDescriptor}},
      {kBackwardDataDy, {D::kConvolutionBackwardData, T::kDescriptor}},
      {kPointwiseDescriptor, {D::kOperationPointwise, T::kDescriptor}},
      {kPointwiseX, {D::kOperationPointwise, T::kDescriptor}},
      {kPointwiseB, {D::kOperationPointwise, T::kDescriptor}},
      {kPointwiseY, {D::kOperationPointwise, T::kDescriptor}},
      {kGraphHandle, {D::kOperationGraph, T::kHandle}},
      {kGraphOperations, {D::kOperationGraph, T::kDescriptor}},
      {kTensorAlignment, {D::kTensor, T::kInt64}},
      {kTensorDataType, {D::kTensor, T::kDataType}},
      {kTensorDimensions, {D::kTensor, T::kInt64}},
      {kTensorStrides, {D::kTensor, T::kInt64}},
      {kTensorId, {D::kTensor, T::kInt64}},
      {kTensorIsVirtual, {D::kTensor, T::kBoolean}},
      {kPackIds, {D::kVariantPack, T::kInt64}},
      {kPackPointers, {D::kVariantPack, T::kVoidPointer}},
      {kPackWorkspace, {D::kVariantPack, T::kVoidPointer}},
  };
  return all;
}

std::size_t size_of(CudnnType type) {
  switch (type) {
    case CudnnType::kBoolean:
      return sizeof(bool);
    case CudnnType::kHandle:
    case CudnnType::kVoidPointer:
    case CudnnType::kDescriptor:
      return sizeof(void*);
    case CudnnType::kInt64:
    case CudnnType::kDouble:
      return 8;
    default:
      return 4;  // enums and float
  }
}

void want(bool holds, const char* why, api::CudnnStatus status = 2000) {
  if (!holds) throw Refused(status, why);
}

/// Positions of a convolution whose input has `in` of them.
std::int64_t positions(std::int64_t in, std::int64_t kernel, const Operation& window,
                       std::size_t axis) {
  const std::int64_t reach = window.dilations[axis] * (kernel - 1) + 1;
  return (in + window.pads_begin[axis] + window.pads_end[axis] - reach) / window.strides[axis] + 1;
}

/// `small` is the convolution's result, `large` its input, whichever is computed.
void check_window(const TensorShape& large, const TensorShape& filter, const TensorShape& small,
                  const Operation& window) {
  const std::size_t axes = window.strides.size();
  want(large.extents.size() == axes + 2 && filter.extents.size() == axes + 2 &&
           small.extents.size() == axes + 2,
       "tensors and window have other ranks", 2008);
  want(large.extents[0] == small.extents[0] && filter.extents[0] == small.extents[1] &&
           large.extents[1] % filter.extents[1] == 0,
       "batch, channels or filters do not match", 2008);
  const std::int64_t groups = large.extents[1] / filter.extents[1];
  want(small.extents[1] % groups == 0, "filters are no multiple of the groups", 2008);
  for (std::size_t axis = 0; axis < axes; ++axis)
    want(positions(large.extents[axis + 2], filter.extents[axis + 2], window, axis) ==
             small.extents[axis + 2],
         "the result has other extents than the window gives", 2008);
  want(filter.strides[1] == 1 && large.strides[1] == 1 && small.strides[1] == 1,
       "only channels-last tensors are expected here", 3004);
}

const char* name_of_mode(int mode) {
  static const std::map<int, const char*> names = {
      {0, "add"},    {1, "mul"},        {6, "div"},       {9, "sub"},
      {100, "relu"}, {101, "tanh"},     {102, "sigmoid"}, {103, "elu"},
      {104, "gelu"}, {105, "softplus"}, {106, "swish"},   {107, "gelu_tanh"}};
  const auto found = names.find(mode);
  want(found != names.end(), "no such pointwise mode", 3000);
  return found->second;
}

}  // namespace

void Descriptor::set(CudnnAttribute attribute, CudnnType of, std::int64_t count,
                     const void* elements) {
  want(!finalized, "it is finalised already");
  const auto rule = rules().find(attribute);
  want(rule != rules().end() && rule->second.descriptor == type, "no attribute of this descriptor");
  want(rule->second.type == of, "an attribute of another type", 2010);
  want(count > 0 && elements != nullptr, "no elements", 2002);
  const auto* begin = static_cast<const std::byte*>(elements);
  attributes_[attribute].assign(begin, begin + static_cast<std::size_t>(count) * size_of(of));
}

const Descriptor& Descriptor::child(CudnnAttribute attribute, CudnnDescriptorType wanted) const {
  const auto* descriptor = one<const Descriptor*>(attribute);
  descriptor->need(wanted);
  want(descriptor->finalized, "a descriptor that is not finalised", 2004);
  return *descriptor;
}

void Descriptor::check_tensor() {
  tensor.dtype = one<int>(CudnnAttribute::kTensorDataType);
  tensor.extents = all<std::int64_t>(CudnnAttribute::kTensorDimensions);
  tensor.strides = all<std::int64_t>(CudnnAttribute::kTensorStrides);
  tensor.id = one<std::int64_t>(CudnnAttribute::kTensorId);
  tensor.alignment = one<std::int64_t>(CudnnAttribute::kTensorAlignment);
  tensor.is_virtual =
      has(CudnnAttribute::kTensorIsVirtual) && one<char>(CudnnAttribute::kTensorIsVirtual) != 0;
  want(tensor.extents.size() == tensor.strides.size(), "extents and strides differ in number");
  want(tensor.alignment == 1 || tensor.alignment % 2 == 0, "an alignment that is no power of two");
  const auto positive = [](std::int64_t value) { return value > 0; };
  want(std::ranges::all_of(tensor.extents, positive) &&
           std::ranges::all_of(tensor.strides, positive),
       "an extent or a stride that is not positive");
}

void Descriptor::check_convolution() {
  want(one<int>(CudnnAttribute::kConvolutionComputeType) == 0, "sums are to be float", 3003);
  want(one<int>(CudnnAttribute::kConvolutionMode) == 1, "cross-correlation is expected", 3000);
  operation.strides = all<std::int64_t>(CudnnAttribute::kConvolutionStrides);
  operation.dilations = all<std::int64_t>(CudnnAttribute::kConvolutionDilations);
  operation.pads_begin = all<std::int64_t>(CudnnAttribute::kConvolutionPrePaddings);
  operation.pads_end = all<std::int64_t>(CudnnAttribute::kConvolutionPostPaddings);
  const std::size_t axes = operation.strides.size();
  want(one<std::int64_t>(CudnnAttribute::kConvolutionSpatialDims) ==
               static_cast<std::int64_t>(axes) &&
           operation.dilations.size() == axes && operation.pads_begin.size() == axes &&
           operation.pads_end.size() == axes && (axes == 2 || axes == 3),
       "a window has two or three axes, and one entry for each", 3000);
}

void Descriptor::check_pointwise() {
  operation.mode = one<int>(CudnnAttribute::kPointwiseMode);
  (void)name_of_mode(operation.mode);
  want(one<int>(CudnnAttribute::kPointwiseMathPrecision) == 0, "steps are to be float", 3003);
  const auto optional = [this](CudnnAttribute attribute, double otherwise) {
    return has(attribute) ? one<double>(attribute) : otherwise;
  };
  operation.lower = optional(CudnnAttribute::kPointwiseReluLowerClip, 0);
  operation.upper =
      optional(CudnnAttribute::kPointwiseReluUpperClip, std::numeric_limits<double>::infinity());
  operation.slope = optional(CudnnAttribute::kPointwiseReluLowerClipSlope, 0);
  operation.elu_alpha = optional(CudnnAttribute::kPointwiseEluAlpha, 1);
  if (operation.mode == 100)
    want(has(CudnnAttribute::kPointwiseNanPropagation), "relu is to keep NaN", 3000);
}

void Descriptor::check_forward() {
  operation =
      child(CudnnAttribute::kForwardConvolution, CudnnDescriptorType::kConvolution).operation;
  operation.kind = Operation::Kind::kForward;
  operation.x = child(CudnnAttribute::kForwardX, CudnnDescriptorType::kTensor).tensor;
  operation.b = child(CudnnAttribute::kForwardW, CudnnDescriptorType::kTensor).tensor;
  operation.y = child(CudnnAttribute::kForwardY, CudnnDescriptorType::kTensor).tensor;
  operation.has_b = true;
  want(one<float>(CudnnAttribute::kForwardAlpha) == 1 &&
           one<float>(CudnnAttribute::kForwardBeta) == 0,
       "y = conv(x, w) is expected", 3000);
  check_window(operation.x, operation.b, operation.y, operation);
}

void Descriptor::check_backward_data() {
  operation =
      child(CudnnAttribute::kBackwardDataConvolution, CudnnDescriptorType::kConvolution).operation;
  operation.kind = Operation::Kind::kBackwardData;
  operation.x = child(CudnnAttribute::kBackwardDataDy, CudnnDescriptorType::kTensor).tensor;
  operation.b = child(CudnnAttribute::kBackwardDataW, CudnnDescriptorType::kTensor).tensor;
  operation.y = child(CudnnAttribute::kBackwardDataDx, CudnnDescriptorType::kTensor).tensor;
  operation.has_b = true;
  want(one<float>(CudnnAttribute::kBackwardDataAlpha) == 1 &&
           one<float>(CudnnAttribute::kBackwardDataBeta) == 0,
       "dx = conv'(dy, w) is expected", 3000);
  check_window(operation.y, operation.b, operation.x, operation);
}

void Descriptor::check_operation_pointwise() {
  operation =
      child(CudnnAttribute::kPointwiseDescriptor, CudnnDescriptorType::kPointwise).operation;
  operation.kind = Operation::Kind::kPointwise;
  operation.x = child(CudnnAttribute::kPointwiseX, CudnnDescriptorType::kTensor).tensor;
  operation.y = child(CudnnAttribute::kPointwiseY, CudnnDescriptorType::kTensor).tensor;
  operation.has_b = operation.mode < 100;
  want(has(CudnnAttribute::kPointwiseB) == operation.has_b, "binary modes have a second operand");
  want(operation.x.extents == operation.y.extents, "x and y differ in shape", 2008);
  if (!operation.has_b) return;
  operation.b = child(CudnnAttribute::kPointwiseB, CudnnDescriptorType::kTensor).tensor;
  want(operation.b.extents.size() == operation.y.extents.size(), "b has another rank", 2008);
  for (std::size_t axis = 0; axis < operation.y.extents.size(); ++axis)
    want(operation.b.extents[axis] == 1 || operation.b.extents[axis] == operation.y.extents[axis],
         "b does not broadcast to y", 2008);
}

void Descriptor::check_graph() {
  want(one<void*>(CudnnAttribute::kGraphHandle) != nullptr, "no handle", 2002);
  auto operations = std::make_shared<OperationGraph>();
  for (const auto* part : all<const Descriptor*>(CudnnAttribute::kGraphOperations)) {
    want(part->finalized, "an operation that is not finalised", 2004);
    operations->push_back(part->operation);
  }
  for (std::size_t i = 0; i < operations->size(); ++i) {
    const Operation& one_of = (*operations)[i];
    want((one_of.kind == Operation::Kind::kPointwise) == (i > 0),
         "a convolution, then pointwise operations", 3001);
    if (i > 0)
      want(one_of.x.id == (*operations)[i - 1].y.id && one_of.x.is_virtual,
           "each takes what the one before made, which is in no memory", 3001);
  }
  want(!operations->back().y.is_virtual, "nothing is stored", 3001);
  graph = operations;
}

void Descriptor::check() {
  want(!finalized, "it is finalised already");
  switch (type) {
    case CudnnDescriptorType::kTensor:
      return check_tensor();
    case CudnnDescriptorType::kConvolution:
      return check_convolution();
    case CudnnDescriptorType::kPointwise:
      return check_pointwise();
    case CudnnDescriptorType::kConvolutionForward:
      return check_forward();
    case CudnnDescriptorType::kConvolutionBackwardData:
      return check_backward_data();
    case CudnnDescriptorType::kOperationPointwise:
      return check_operation_pointwise();
    case CudnnDescriptorType::kOperationGraph:
      return check_graph();
    case CudnnDescriptorType::kEngineHeuristic:
      (void)one<int>(CudnnAttribute::kHeuristicMode);
      graph = child(CudnnAttribute::kHeuristicOperationGraph, CudnnDescriptorType::kOperationGraph)
                  .graph;
      return;
    case CudnnDescriptorType::kExecutionPlan: {
      want(one<void*>(CudnnAttribute::kPlanHandle) != nullptr, "no handle", 2002);
      const Descriptor& config =
          child(CudnnAttribute::kPlanConfig, CudnnDescriptorType::kEngineConfig);
      graph = config.graph;
      index = config.index;
      return;
    }
    case CudnnDescriptorType::kVariantPack:
      want(all<std::int64_t>(CudnnAttribute::kPackIds).size() ==
               all<void*>(CudnnAttribute::kPackPointers).size(),
           "ids and pointers differ in number");
      return;
    default:
      throw Refused(2012, "a descriptor that is not finalised by its user");
  }
}

std::string text_of(const OperationGraph& graph) {
  const auto tensor = [](const TensorShape& shape) {
    static const std::map<int, const char*> names = {{0, "float"}, {2, "half"}, {9, "bfloat16"}};
    return fmt::format("{}[{}]", names.at(shape.dtype), fmt::join(shape.extents, ","));
  };
  std::string text;
  for (const Operation& one : graph) {
    if (!text.empty()) text += "; ";
    if (one.kind == Operation::Kind::kPointwise) {
      text += name_of_mode(one.mode);
      if (one.mode == 100 && (one.lower != 0 || one.slope != 0 || one.upper < 1e30))
        text += fmt::format("({},{},{})", one.lower, one.upper, one.slope);
      if (one.has_b) text += " " + tensor(one.b);
      continue;
    }
    text += fmt::format("{} {} {} pads {} {} strides {} dilations {} -> {}",
                        one.kind == Operation::Kind::kForward ? "conv" : "conv'", tensor(one.x),
                        tensor(one.b), one.pads_begin, one.pads_end, one.strides, one.dilations,
                        fmt::join(one.y.extents, ","));
  }
  return text + " -> " + tensor(graph.back().y);
}

}  // namespace braze::cuda::fake
