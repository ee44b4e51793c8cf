#include "braze/product_simt.cuh"

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
    {  BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = clip(v[i], e.value[0], e.value[1]); }
    { float x[V]; load_operand<float, Access::kVector>(x, e.operand[1], at); BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = mul(v[i], x[i]); }
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
conv_simt_d0982aec9d082fae(const __grid_constant__ ProductParameters p) {
  product<FmaTile<64, 64, 8, 8, 2, 128>, float, Rows::kWindows, Load::kAsync, float, Load::kAsync, 3, true, float, Store::kVector, 8, Finish::kChannels, Epilogue>(p);
}
