#include "braze/product_portable.cuh"

namespace braze::device {

struct Epilogue {
  template <int V>
  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,
                                               const Position& at) {
    { float x[V]; load_operand<float, Access::kVector>(x, e.operand[0], at); BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = add(v[i], x[i]); }
    {  BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = relu(v[i]); }
  }
};

}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(256, 1)
conv_portable_5f152e7d3f221b59(const __grid_constant__ ProductParameters p) {
  product<WmmaTile<half, 128, 64, 4, 2, 64>, half, Rows::kWindows, Load::kVectors, half, Load::kVectors, 2, true, half, Store::kVector, 8, Finish::kChannels, Epilogue>(p);
}
