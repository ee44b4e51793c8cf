#include "braze/conv_sm90_whole.cuh"

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
conv_sm90_whole_02e88b7917657e50(const __grid_constant__ ConvSm90Parameters p) {
  conv_sm90_whole<ConvSm90Tile<half, 64, 128, 128, 1, 2, 0, false, ConvSm90Input::kNone, ConvSm90Columns::kPhases>, Epilogue, half, Store::kVector>(p);
}
