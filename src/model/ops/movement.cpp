// Operators that move elements. Parameters that are attributes in old opsets become attributes of
// the graph's node; those that are inputs stay inputs.
#include "model/ops/readers.hpp"

namespace braze::model {

void read_concat(NodeReader& node) { node.emit(Concat{node.attributes.integer("axis")}); }

void read_split(NodeReader& node) {
  Split op;
  op.axis = node.attributes.integer("axis", 0);
  if (node.opset() < 13) {
    node.expect_inputs(1, 1);
    op.sizes = node.attributes.integers("split");
  } else if (node.opset() >= 18 && node.attributes.has("num_outputs")) {
    const std::int64_t count = node.attributes.integer("num_outputs");
    if (node.input(1) != kNoValue) node.invalid("has both num_outputs and an input 'split'");
    if (count != static_cast<std::int64_t>(node.output_count())) {
      node.invalid("num_outputs is {}, but there are {} outputs", count, node.output_count());
    }
  }
  node.emit(std::move(op));
}

void read_slice(NodeReader& node) {
  Slice op;
  if (node.opset() < 10) {
    node.expect_inputs(1, 1);
    op.starts = node.attributes.integers("starts");
    op.ends = node.attributes.integers("ends");
    op.axes = node.attributes.integers("axes");
  } else {
    node.expect_inputs(3, 5);
  }
  node.emit(std::move(op));
}

void read_pad(NodeReader& node) {
  Pad op;
  op.mode = node.attributes.choice<PadMode>("mode", "constant",
                                            {{"constant", PadMode::kConstant},
                                             {"reflect", PadMode::kReflect},
                                             {"edge", PadMode::kEdge},
                                             {"wrap", PadMode::kWrap}});
  if (node.opset() < 11) {
    node.expect_inputs(1, 1);
    op.pads = node.attributes.integers("pads");
    op.value = node.attributes.real("value", 0);
  } else {
    node.expect_inputs(2, node.opset() < 18 ? 3 : 4);
  }
  node.emit(std::move(op));
}

void read_transpose(NodeReader& node) { node.emit(Transpose{node.attributes.integers("perm")}); }
void read_gather(NodeReader& node) { node.emit(Gather{node.attributes.integer("axis", 0)}); }
void read_expand(NodeReader& node) { node.emit(Expand{}); }
void read_tile(NodeReader& node) { node.emit(Tile{}); }

}  // namespace braze::model
