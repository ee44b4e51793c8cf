#include "braze/product_sm80.cuh"

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

extern "C" __global__ void __launch_bounds__(128, 1)
conv_sm80_8ae7018323653c52(const __grid_constant__ ProductParameters p) {
  product<MmaTile<half, 64, 64, 2, 2, 128, false>, half, Rows::kWindows, Load::kAsync, half, Load::kAsync, 3, true, half, Store::kVector, 8, Finish::kChannels, Epilogue>(p);
}
