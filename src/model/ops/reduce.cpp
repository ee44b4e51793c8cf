// The Reduce family, ArgMax and ArgMin.
#include "model/ops/readers.hpp"

namespace braze::model {

/// The axes are an attribute at first, an input from opset `axes_input_since` on.
void read_reduce(NodeReader& node, ReduceFn fn, int axes_input_since) {
  Reduce op;
  op.fn = fn;
  op.keepdims = node.attributes.flag("keepdims", true);
  if (node.opset() < axes_input_since) {
    node.expect_inputs(1, 1);
    op.axes = node.attributes.integers("axes");
  } else {
    op.noop_with_empty_axes = node.attributes.flag("noop_with_empty_axes", false);
  }
  node.emit(std::move(op));
}

namespace {

void read_arg(NodeReader& node, bool max) {
  ArgReduce op;
  op.max = max;
  op.axis = node.attributes.integer("axis", 0);
  op.keepdims = node.attributes.flag("keepdims", true);
  op.select_last = node.attributes.flag("select_last_index", false);
  node.emit(op);
}

}  // namespace

void read_arg_max(NodeReader& node) { read_arg(node, true); }
void read_arg_min(NodeReader& node) { read_arg(node, false); }

}  // namespace braze::model
