#include "braze/product_simt.cuh"

namespace braze::device {

struct Epilogue {
  template <int V>
  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,
                                               const Position& at) {
    { float x[V]; load_operand<float, Access::kVector>(x, e.operand[0], at); BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = add(v[i], x[i]); }
    {  BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = clip(v[i], e.value[0], e.value[1]); }
    { float x[V]; load_operand<float, Access::kVector>(x, e.operand[1], at); BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = mul(v[i], x[i]); }
  }
};

}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(128, 1)
conv_simt_53fb425aa0b82882(const __grid_constant__ ProductParameters p) {
  product<FmaTile<64, 64, 8, 8, 2, 128>, float, Rows::kWindows, Load::kAsync, float, Load::kAsync, 3, true, float, Store::kVector, 8, Finish::kChannels, Epilogue>(p);
}
