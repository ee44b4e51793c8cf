#include "braze/conv_stem.cuh"

namespace braze::device {

struct Epilogue {
  template <int V>
  struct Constants {
    float x0[V];
  };
  template <int V>
  static __device__ __forceinline__ void load(Constants<V>& c, const EpilogueParameters& e,
                                              int channel) {
    load_vector<float, V>(c.x0, static_cast<const float*>(e.operand[0].data) + channel);
  }
  template <int V>
  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,
                                               const Position& at, const Constants<V>& c) {
    { const auto& x = c.x0; BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = add(v[i], x[i]); }
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

extern "C" __global__ void __launch_bounds__(128, 6)
conv_stem_518176a4e599453c(const __grid_constant__ ConvStemParameters p) {
  conv_stem<StemTile<half, 4, 4, 32, 3, 3, 7, 7, 2, 2, 1, 1>, half, StemInput::kDense, 4, half, Store::kVector, Epilogue>(p);
}
