#include "braze/product_sm80.cuh"

namespace braze::device {

struct Epilogue {
  template <int V>
  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,
                                               const Position& at) {
    { float x[V]; load_operand<float, Access::kVector>(x, e.operand[0], at); BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = add(v[i], x[i]); }
    {  BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = hard_swish(v[i]); }
    { float x[V]; load_operand<float, Access::kEach>(x, e.operand[1], at); BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = maximum(v[i], x[i]); }
  }
};

}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(128, 1)
conv_sm80_0a77174730e449cd(const __grid_constant__ ProductParameters p) {
  product<MmaTile<half, 64, 64, 2, 2, 128, false>, half, Rows::kWindows, Load::kAsync, half, Load::kAsync, 3, true, half, Store::kVector, 8, Finish::kChannels, Epilogue>(p);
}
