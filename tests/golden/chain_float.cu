#include "braze/pointwise.cuh"

namespace braze::device {

struct Map {
  static constexpr int kOperands = 3, kAxes = 2, V = 4;
  using Index = u32;
  static __device__ __forceinline__ void apply(const PointwiseParameters& p, i64 y,
                                               const i64 (&x)[kOperands]) {
    float x0[V]; load_elements<float, true>(x0, static_cast<const float*>(p.x[0]) + x[0], p.x_step[0]);
    float x1[V]; load_elements<float, true>(x1, static_cast<const float*>(p.x[1]) + x[1], p.x_step[1]);
    float x2[V]; load_elements<float, true>(x2, static_cast<const float*>(p.x[2]) + x[2], p.x_step[2]);
    float v[V];
    BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = add(x0[i], x1[i]);
    BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = mish(v[i]);
    BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = powf(v[i], x2[i]);
    store_elements<float, true>(static_cast<float*>(p.y) + y, p.y_step, v);
  }
};

}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(64, 1)
pointwise_5c469cd16f7aa7dc(const __grid_constant__ PointwiseParameters p) {
  pointwise<Map, 64>(p);
}
