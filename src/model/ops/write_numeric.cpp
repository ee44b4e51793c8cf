// Operators that compute along axes or slide a window, to ONNX.
#include <algorithm>
#include <iterator>

#include "model/node_writer.hpp"

namespace braze::model {
namespace {

OnnxNode& set_window(OnnxNode& node, const Window& window) {
  Ints pads = window.pads_begin;
  pads.insert(pads.end(), window.pads_end.begin(), window.pads_end.end());
  node.set("kernel_shape", window.kernel).set("strides", window.strides).set("pads", pads);
  const bool dilated = std::any_of(window.dilations.begin(), window.dilations.end(),
                                   [](std::int64_t dilation) { return dilation != 1; });
  if (dilated) node.set("dilations", window.dilations);
  return node;
}

constexpr const char* kReduce[] = {"ReduceMean",      "ReduceSum",      "ReduceMax", "ReduceMin",
                                   "ReduceProd",      "ReduceL1",       "ReduceL2",  "ReduceLogSum",
                                   "ReduceLogSumExp", "ReduceSumSquare"};
static_assert(std::size(kReduce) == static_cast<std::size_t>(ReduceFn::kSumSquare) + 1);

}  // namespace

void write_op(const Conv& op, NodeWriter& node) {
  OnnxNode written = node.last("Conv");
  set_window(written, op.window).set("group", op.group);
}

void write_op(const ConvTranspose& op, NodeWriter& node) {
  OnnxNode written = node.last("ConvTranspose");
  set_window(written, op.window).set("group", op.group).set("output_padding", op.output_padding);
}

void write_op(const QLinearConv& op, NodeWriter& node) {
  OnnxNode written = node.last("QLinearConv");
  set_window(written, op.window).set("group", op.group);
}

/// The zero point says which dtype the result has.
void write_op(const Quantize& op, NodeWriter& node) {
  std::vector<std::string> inputs = {node.input(0), node.input(1), node.input(2)};
  if (!node.has(2)) inputs[2] = node.constant(Tensor::make(op.to, node.value(1).shape));
  node.last("QuantizeLinear", inputs).set("axis", op.axis);
}

void write_op(const Dequantize& op, NodeWriter& node) {
  node.last("DequantizeLinear").set("axis", op.axis);
}

void write_op(const MatMul& /*op*/, NodeWriter& node) { node.last("MatMul"); }

void write_op(const Gemm& op, NodeWriter& node) {
  node.last("Gemm")
      .set("alpha", op.alpha)
      .set("beta", op.beta)
      .set("transA", op.trans_a)
      .set("transB", op.trans_b);
}

void write_op(const BatchNorm& op, NodeWriter& node) {
  node.last("BatchNormalization").set("epsilon", op.epsilon);
}

void write_op(const InstanceNorm& op, NodeWriter& node) {
  node.last("InstanceNormalization").set("epsilon", op.epsilon);
}

void write_op(const Lrn& op, NodeWriter& node) {
  node.last("LRN")
      .set("size", op.size)
      .set("alpha", op.alpha)
      .set("beta", op.beta)
      .set("bias", op.bias);
}

void write_op(const Softmax& op, NodeWriter& node) {
  node.last(op.log ? "LogSoftmax" : "Softmax").set("axis", op.axis);
}

void write_op(const Pool& op, NodeWriter& node) {
  const bool max = op.fn == PoolFn::kMax;
  const bool dilated = std::any_of(op.window.dilations.begin(), op.window.dilations.end(),
                                   [](std::int64_t dilation) { return dilation != 1; });
  if (!max && dilated) node.no_spelling("an average pool with dilations");
  OnnxNode written = node.last(max ? "MaxPool" : "AveragePool");
  set_window(written, op.window).set("ceil_mode", op.ceil_mode);
  if (max) {
    written.set("storage_order", op.column_major_indices);
  } else {
    written.set("count_include_pad", op.count_include_pad);
  }
}

/// In opset 17 the axes are an attribute, only those of ReduceSum are an input. No axes mean all.
void write_op(const Reduce& op, NodeWriter& node) {
  if (op.axes.empty() && !node.value(0).shape.empty()) {
    if (op.fn > ReduceFn::kProd) node.no_spelling("a reduction over no axes");
    node.last("Identity");
    return;
  }
  if (op.fn == ReduceFn::kSum) {
    node.last("ReduceSum", {node.input(0), node.ints(op.axes)}).set("keepdims", op.keepdims);
    return;
  }
  OnnxNode written = node.last(kReduce[static_cast<std::size_t>(op.fn)]);
  written.set("keepdims", op.keepdims);
  if (!op.axes.empty()) written.set("axes", op.axes);
}

void write_op(const ArgReduce& op, NodeWriter& node) {
  node.last(op.max ? "ArgMax" : "ArgMin")
      .set("axis", op.axis)
      .set("keepdims", op.keepdims)
      .set("select_last_index", op.select_last);
}

}  // namespace braze::model
