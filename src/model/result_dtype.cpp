#include "model/result_dtype.hpp"

namespace braze::model {
namespace {

struct Types {
  const Graph& graph;
  const Node& node;
  std::size_t output;

  [[nodiscard]] DType input(std::size_t i) const {
    return node.input(i) == kNoValue ? DType::kFloat32 : graph.value(node.input(i)).dtype;
  }

  template <class Op>
  DType operator()(const Op& /*op*/) const {
    return input(0);
  }
  DType operator()(const Unary& op) const {
    return op.fn == UnaryFn::kIsNaN ? DType::kBool : input(0);
  }
  DType operator()(const Binary& op) const {
    return op.fn >= BinaryFn::kEqual ? DType::kBool : input(0);
  }
  DType operator()(const Where& /*op*/) const { return input(1); }
  DType operator()(const Cast& op) const { return op.to; }
  DType operator()(const QLinearConv& /*op*/) const { return input(7); }
  DType operator()(const Quantize& op) const {
    return node.input(2) == kNoValue ? op.to : input(2);
  }
  DType operator()(const Dequantize& /*op*/) const { return input(1); }
  DType operator()(const Pool& /*op*/) const { return output == 0 ? input(0) : DType::kInt64; }
  DType operator()(const ArgReduce& /*op*/) const { return DType::kInt64; }
  DType operator()(const ShapeOf& /*op*/) const { return DType::kInt64; }
  DType operator()(const SizeOf& /*op*/) const { return DType::kInt64; }
  DType operator()(const ConstantOfShape& op) const { return op.value.dtype(); }
};

}  // namespace

DType result_dtype(const Graph& graph, const Node& node, std::size_t output) {
  return std::visit(Types{graph, node, output}, node.op);
}

}  // namespace braze::model
