#include "braze/conv_transpose_mma.cuh"

namespace braze::device {

struct Epilogue {
  template <int V>
  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,
                                               const Position& at) {
    { float x[V]; load_operand<float, Access::kVector>(x, e.operand[0], at); BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = add(v[i], x[i]); }
  }
};

}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(128, 1)
conv_transpose_mma_8407ab54fdc5510b(const __grid_constant__ ConvTransposeMmaParameters p) {
  conv_transpose_mma<half, half, Store::kVector, Epilogue>(p);
}
