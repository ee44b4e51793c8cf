// MaxPool, AveragePool and the global pools.
#include "model/ops/readers.hpp"
#include "model/ops/window.hpp"

namespace braze::model {
namespace {

Pool read_pool(NodeReader& node, PoolFn fn) {
  Pool op;
  op.fn = fn;
  op.window = read_window(node);
  if (op.window.kernel.empty()) node.invalid("attribute 'kernel_shape' is absent");
  op.ceil_mode = node.attributes.flag("ceil_mode", false);
  return op;
}

void read_global_pool(NodeReader& node, ReduceFn fn) {
  Reduce op;
  op.fn = fn;
  op.spatial = true;
  node.emit(std::move(op));
}

}  // namespace

void read_max_pool(NodeReader& node) {
  Pool op = read_pool(node, PoolFn::kMax);
  op.column_major_indices = node.attributes.flag("storage_order", false);
  node.emit(std::move(op));
}

void read_average_pool(NodeReader& node) {
  Pool op = read_pool(node, PoolFn::kAverage);
  op.count_include_pad = node.attributes.flag("count_include_pad", false);
  node.emit(std::move(op));
}

void read_global_average_pool(NodeReader& node) { read_global_pool(node, ReduceFn::kMean); }
void read_global_max_pool(NodeReader& node) { read_global_pool(node, ReduceFn::kMax); }

}  // namespace braze::model
