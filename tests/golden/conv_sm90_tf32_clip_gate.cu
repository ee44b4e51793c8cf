#include "braze/conv_sm90.cuh"

namespace braze::device {

struct Epilogue {
  template <int V>
  struct Constants {
  };
  template <int V>
  static __device__ __forceinline__ void load(Constants<V>& c, const EpilogueParameters& e,
                                              int channel) {
  }
  template <int V>
  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,
                                               const Position& at, const Constants<V>& c) {
    {  BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = clip(v[i], e.value[0], e.value[1]); }
    { float x[V]; load_operand<float, Access::kVector>(x, e.operand[0], at); BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = mul(v[i], x[i]); }
  }
  template <int V>
  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,
                                               const Position& at) {
    Constants<V> c;
    load(c, e, at.channel);
    apply(v, e, at, c);
  }
};

}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(160, 2)
conv_sm90_62a7ee064f2883eb(const __grid_constant__ ConvSm90Parameters p) {
  conv_sm90<ConvSm90Tile<tf32, 64, 32, 128, 1, 2, 0, true>, Epilogue, float, Store::kVector>(p);
}
