#include "kernels/cpu/conv_transpose.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "graph/window.hpp"
#include "kernels/cpu/families.hpp"

namespace braze::cpu {
namespace {

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.as<ConvTranspose>() == nullptr) return Support::no("op", "only ConvTranspose");
  const Value& x = graph.value(node.inputs[0]);
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const Value& value = graph.value(id);
    if (value.dtype != DType::kFloat32) {
      return Support::no("dtype",
                         fmt::format("{} is {}; takes fp32", value.name, to_string(value.dtype)));
    }
    if (id != node.inputs[0] && !value.is_constant()) {
      return Support::no("weights", "weights or bias that are not constant");
    }
  }
  if (x.shape.size() < 3 || x.shape.size() > 5) {
    return Support::no("rank",
                       fmt::format("an input {}; takes 1 to 3 spatial axes", to_string(x.shape)));
  }
  if (element_count(x.shape) == 0 || element_count(graph.value(node.outputs[0]).shape) == 0) {
    return Support::no("empty", "the input or the output has no elements");
  }
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device& device) {
  const Node& node = anchor_of(graph, group);
  const Shape& x = graph.value(node.inputs[0]).shape;
  const Shape& w = graph.value(node.inputs[1]).shape;
  const std::int64_t groups = node.as<ConvTranspose>()->group;
  const double products =
      static_cast<double>(element_count(w)) / static_cast<double>(w[0]);  // of one input element
  const std::int64_t lanes = device.isa == "AVX3" ? 16 : device.isa == "AVX2" ? 8 : 4;
  const bool depthwise = groups > 1 && groups == x[1] && x.size() <= 4;
  const std::int64_t vectored = depthwise ? w[1] * groups : w[1];
  const double used =
      static_cast<double>(vectored) / static_cast<double>(ceil_div(vectored, lanes) * lanes);
  return streaming_work(graph, group, 2 * products * static_cast<double>(element_count(x)),
                        used * (depthwise ? 0.3 : 0.8));
}

}  // namespace

Row conv_transpose() {
  KernelFamily family;
  family.name = "conv_transpose";
  family.backend = "cpu";
  family.layouts = LayoutRule::kEach;
  family.epilogue = true;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, [](const Plan& plan, const KernelPlan& kernel) -> std::unique_ptr<Kernel> {
            return std::make_unique<ConvTransposeKernel>(plan, kernel);
          }};
}

}  // namespace braze::cpu
