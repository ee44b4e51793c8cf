#include "braze/chain_sm80.cuh"

namespace braze::device {

struct Epilogue0 {
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
  }
  template <int V>
  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,
                                               const Position& at) {
    Constants<V> c;
    load(c, e, at.channel);
    apply(v, e, at, c);
  }
};
using Sink0 = ChainSink<half, true, false, half, Store::kEach, false>;
struct Epilogue1 {
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
  }
  template <int V>
  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,
                                               const Position& at) {
    Constants<V> c;
    load(c, e, at.channel);
    apply(v, e, at, c);
  }
};
using Sink1 = ChainSink<half, true, false, half, Store::kEach, false>;
struct Epilogue2 {
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
    { float x[V]; load_vector<half, V>(x, reinterpret_cast<const half*>(at.staged)); BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = add(x[i], v[i]); }
  }
  template <int V>
  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,
                                               const Position& at) {
    Constants<V> c;
    load(c, e, at.channel);
    apply(v, e, at, c);
  }
};
using Sink2 = ChainSink<half, false, true, half, Store::kEach, true>;

struct Chain {
  using Weights = ChainResident;
  static __device__ __forceinline__ void tables(const ChainParameters& p, int* table) {
    chain_table(p.stage[0], p.image[0], table);
    chain_table(p.stage[2], p.image[2], table);
  }
  static constexpr bool kAhead = false;
  static __device__ __forceinline__ void bring(const ChainParameters& p, const ChainTile& tile) {
    chain_load<half, half, Load::kElements>(p, p.image[0], tile, 0);
  }
  static __device__ __forceinline__ void tile(const ChainParameters& p, const ChainTile& tile,
                                              int next, Weights& weights) {
    bring(p, tile);
    chain_arrived<Load::kElements>();
    const ChainWork w0{p.stage[0], p.image[0], p.image[1], p.image[0], tile, 0};
    chain_dense<ChainMma<half, 128, 96, 4, 2>, Epilogue0, Sink0>(w0, weights);
    __syncthreads();
    const ChainWork w1{p.stage[1], p.image[1], p.image[2], p.image[0], tile, 0};
    chain_depthwise<3, 1, 4, Epilogue1, Sink1>(w1, weights);
    __syncthreads();
    const ChainWork w2{p.stage[2], p.image[2], p.image[3], p.image[0], tile, 0};
    chain_dense<ChainMma<half, 64, 32, 4, 2>, Epilogue2, Sink2>(w2, weights);
  }
};

}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(256, 2)
chain_sm80_b6bd0ad8b5a3bc0b(const __grid_constant__ ChainParameters p) {
  chain<Chain>(p);
}
