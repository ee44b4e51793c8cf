#include "braze/matrix_vector.cuh"

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
    {  BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = silu(v[i]); }
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

extern "C" __global__ void __launch_bounds__(128, 4)
matrix_vector_4033d9a05ec8059d(const __grid_constant__ MatrixVectorParameters p) {
  matrix_vector<VectorMma<half, 1>, half, true, 1, 4, 1, half, Epilogue>(p);
}
