// Constant: the one operator that becomes no node.
#include "graph/elements.hpp"
#include "model/ops/readers.hpp"

namespace braze::model {
namespace {

template <class T>
Tensor vector_of(DType dtype, const std::vector<T>& values) {
  return make_tensor(dtype, {std::ssize(values)}, values);
}

}  // namespace

void read_constant(NodeReader& node) {
  AttributeReader& attributes = node.attributes;
  for (const char* name : {"sparse_value", "value_string", "value_strings"}) {
    if (attributes.has(name)) node.unsupported("attribute '{}' is not supported", name);
  }
  if (attributes.count() != 1) {
    node.invalid("has {} attributes, expected one that is the value", attributes.count());
  }
  if (auto value = attributes.tensor("value")) return node.emit_constant(std::move(*value));
  if (attributes.has("value_float")) {
    const std::vector<double> value = {attributes.real("value_float")};
    return node.emit_constant(make_tensor(DType::kFloat32, {}, value));
  }
  if (attributes.has("value_int")) {
    return node.emit_constant(
        make_tensor(DType::kInt64, {}, Ints{attributes.integer("value_int")}));
  }
  if (attributes.has("value_floats")) {
    return node.emit_constant(vector_of(DType::kFloat32, attributes.reals("value_floats")));
  }
  if (attributes.has("value_ints")) {
    return node.emit_constant(vector_of(DType::kInt64, attributes.integers("value_ints")));
  }
}

}  // namespace braze::model
