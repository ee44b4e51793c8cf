#include "braze/conv_transpose_mma.cuh"

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

extern "C" __global__ void __launch_bounds__(128, 1)
conv_transpose_mma_07e59b281e3174e7(const __grid_constant__ ConvTransposeMmaParameters p) {
  conv_transpose_mma<half, half, Store::kVector, Epilogue>(p);
}
