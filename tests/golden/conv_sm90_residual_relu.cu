#include "braze/conv_patch_sm90_whole.cuh"

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
    { float x[V]; load_staged<half, 128>(x, at); BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = add(v[i], x[i]); }
    {  BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = relu(v[i]); }
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

extern "C" __global__ void __launch_bounds__(128, 2)
conv_patch_sm90_whole_3c2f509c77a94ad9(const __grid_constant__ ConvPatchParameters p) {
  conv_patch_sm90_whole<ConvPatchTile<half, 64, 1, 1, true>, Epilogue, half, Store::kVector>(p);
}
