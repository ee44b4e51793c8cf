// Each family of the GPU is listed here, once.
#include "base/error.hpp"
#include "kernels/cuda/device/epilogue_parameters.h"
#include "kernels/cuda/families.hpp"

namespace braze::cuda {

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      conv_depthwise(),
      conv_stem(),
      matrix_vector(),
      conv_sm90(),
      conv_sm80(),
      conv_portable(),
      conv_simt(),
      conv_direct_cuda(),
      gemm_cuda(),
      pointwise(),
      relayout(),
      concat(),
      transpose(),
      slice(),
      pad(),
      gather(),
      pool(),
      reduce(),
      softmax(),
      instance_norm(),
      lrn(),
      resize(),
      conv_transpose(),
      squeeze_excite(),
      conv_sum_sm90(),
      chain_sm90(),
      chain_sm80(),
      chain_portable(),
      host(),
  };
  return all;
}

Registry registry() {
  Registry registry;
  for (const Row& row : rows()) {
    KernelFamily& family = registry.emplace_back(row.family);
    family.most_steps = device::kMaxValues / 2;       // each has up to two values
    family.most_operands = device::kMaxOperands - 1;  // the bias is one
  }
  return registry;
}

Registry registry_with_cudnn() {
  Registry all = registry();
  all.insert(all.begin(), cudnn().family);
  return all;
}

Registry registry_offering_cudnn() {
  Registry all = registry();
  all.push_back(cudnn().family);
  return all;
}

Build builder(std::string_view family) {
  if (family == cudnn().family.name) return cudnn().build;
  for (const Row& row : rows()) {
    if (row.family.name == family) return row.build;
  }
  fail(ErrorCode::kInternal, "internal error: there is no CUDA kernel family '{}'", family);
}

}  // namespace braze::cuda
