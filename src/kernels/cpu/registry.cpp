// Each family of the CPU is listed here, once.
#include "base/error.hpp"
#include "kernels/cpu/families.hpp"

namespace braze::cpu {

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      conv_depthwise(), conv_winograd(), conv_direct(), chain_rows(), conv_transpose(),
      pool(),           gemm(),          pointwise(),   softmax(),    reduce(),
      instance_norm(),  lrn(),           resize(),      quantized(),  concat(),
      transpose(),      slice(),         gather(),      relayout(),   reference(),
  };
  return all;
}

Registry registry() {
  Registry registry;
  for (const Row& row : rows()) registry.push_back(row.family);
  return registry;
}

Build builder(std::string_view family) {
  for (const Row& row : rows()) {
    if (row.family.name == family) return row.build;
  }
  fail(ErrorCode::kInternal, "internal error: there is no CPU kernel family '{}'", family);
}

}  // namespace braze::cpu
