#include "braze/pool.cuh"

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

extern "C" __global__ void __launch_bounds__(64, 1)
pool_ff2dc134b1757d5e(const __grid_constant__ PoolParameters p) {
  pool_window<half, half, true, 3, 3, 1, 2, 1, u32, 64, Epilogue>(p);
}
