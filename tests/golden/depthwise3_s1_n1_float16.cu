#include "braze/conv_depthwise.cuh"

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

extern "C" __global__ void __launch_bounds__(128, 4)
conv_depthwise_86d27bc0d209b0ca(const __grid_constant__ ConvDepthwiseParameters p) {
  conv_depthwise_strip<half, half, half, 3, 3, 1, 4, 4, u32, 128, Epilogue>(p);
}
