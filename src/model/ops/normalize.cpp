// BatchNormalization, InstanceNormalization, LRN, Softmax, LogSoftmax.
#include "model/ops/readers.hpp"

namespace braze::model {
namespace {

/// Before opset 13 it runs over all axes from `axis` on, as if they were one.
void read_softmax(NodeReader& node, bool log) {
  const bool flatten = node.opset() < 13;
  node.emit(Softmax{node.attributes.integer("axis", flatten ? 1 : -1), log, flatten});
}

}  // namespace

/// Only with given statistics: training_mode, or more outputs than one, asks for the batch's own.
void read_batch_normalization(NodeReader& node) {
  node.attributes.real("momentum", 0.9F);
  node.attributes.only("training_mode", 0);
  if (node.opset() < 9) node.attributes.only("spatial", 1);
  for (std::size_t i = 1; i < node.output_count(); ++i) {
    if (node.has_output(i)) node.unsupported("output {}, a statistic of training, is asked for", i);
  }
  node.emit_first(BatchNorm{node.attributes.real("epsilon", 1e-5F)}, node.inputs());
}

void read_instance_normalization(NodeReader& node) {
  node.emit(InstanceNorm{node.attributes.real("epsilon", 1e-5F)});
}

void read_lrn(NodeReader& node) {
  Lrn op;
  op.size = node.attributes.integer("size");
  if (op.size < 1 || op.size > INT32_MAX) node.invalid("size is {}, expected 1 or more", op.size);
  op.alpha = node.attributes.real("alpha", 1e-4F);
  op.beta = node.attributes.real("beta", 0.75F);
  op.bias = node.attributes.real("bias", 1);
  node.emit(op);
}

void read_softmax(NodeReader& node) { read_softmax(node, false); }
void read_log_softmax(NodeReader& node) { read_softmax(node, true); }

}  // namespace braze::model
