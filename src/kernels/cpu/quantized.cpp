// Quantize, Dequantize, QLinearConv: exact integer arithmetic, the same bits as the reference.
#include "kernels/cpu/quantized.hpp"

#include <algorithm>

#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

bool is_any(DType dtype, std::initializer_list<DType> set) {
  return std::find(set.begin(), set.end(), dtype) != set.end();
}

Support supports_qlinear(const Graph& graph, const Node& node) {
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.input(i) != kNoValue && !graph.value(node.input(i)).is_constant()) {
      return Support::no("constant", "only x of a quantized convolution may be known at run time");
    }
  }
  // |x - x_zero| and |w - w_zero| are at most 255.
  constexpr std::int64_t kMostTerms = 2147483647 / (255 * 255);
  const Shape& w = graph.value(node.input(3)).shape;
  const std::int64_t terms = w[0] == 0 ? 0 : element_count(w) / w[0];
  if (terms > kMostTerms)
    return Support::no("terms", "sums of so many products do not fit 32 bits");
  if (w.size() > 5) return Support::no("rank", "convolves images of one to three spatial axes");
  return Support::yes();
}

Support supports(const Graph& graph, const Node& node, const Device&) {
  const auto dtype = [&](ValueId id) { return graph.value(id).dtype; };
  const auto refuse_dtype = [](DType found) {
    return Support::no("dtype", std::string("does not take ") + to_string(found));
  };
  switch (node.kind()) {
    case OpKind::kQLinearConv:
      return supports_qlinear(graph, node);
    case OpKind::kQuantize:
      if (dtype(node.input(0)) != DType::kFloat32) return refuse_dtype(dtype(node.input(0)));
      if (dtype(node.input(1)) != DType::kFloat32) return refuse_dtype(dtype(node.input(1)));
      return Support::yes();
    case OpKind::kDequantize:
      if (!is_any(dtype(node.input(0)),
                  {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16, DType::kInt32})) {
        return refuse_dtype(dtype(node.input(0)));
      }
      if (dtype(node.input(1)) != DType::kFloat32) return refuse_dtype(dtype(node.input(1)));
      return Support::yes();
    default:
      return Support::no("operator", "runs quantized operators only");
  }
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = anchor_of(graph, group);
  const auto elements = static_cast<double>(element_count(graph.value(node.output()).shape));
  if (node.kind() != OpKind::kQLinearConv) return streaming_work(graph, group, 6 * elements, 0.3);
  const Shape& w = graph.value(node.input(3)).shape;
  const std::int64_t filter = w[0] == 0 ? 0 : element_count(w) / w[0];
  return streaming_work(graph, group, 2 * static_cast<double>(filter) * elements, 0.2);
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  return node.kind() == OpKind::kQLinearConv ? qlinear_conv(plan, kernel) : quantize(plan, kernel);
}

}  // namespace

Row quantized() {
  KernelFamily family;
  family.name = "quantized";
  family.backend = "cpu";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
