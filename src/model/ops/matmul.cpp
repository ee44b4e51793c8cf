// MatMul and Gemm.
#include "model/ops/readers.hpp"

namespace braze::model {

void read_matmul(NodeReader& node) { node.emit(MatMul{}); }

void read_gemm(NodeReader& node) {
  Gemm op;
  op.alpha = node.attributes.real("alpha", 1);
  op.beta = node.attributes.real("beta", 1);
  op.trans_a = node.attributes.integer("transA", 0) != 0;
  op.trans_b = node.attributes.integer("transB", 0) != 0;
  node.emit(op);
}

}  // namespace braze::model
