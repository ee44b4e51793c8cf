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
using Sink1 = ChainSink<half, false, true, half, Store::kEach, false>;

struct Chain {
  using Weights = ChainResident;
  static __device__ __forceinline__ void tables(const ChainParameters& p, int* table) {
    chain_table(p.stage[0], p.image[0], table);
    chain_table(p.stage[1], p.image[1], table);
  }
  static constexpr bool kAhead = true;
  static __device__ __forceinline__ void bring(const ChainParameters& p, const ChainTile& tile) {
    chain_load<half, half, Load::kAsync>(p, p.image[0], tile, 0);
  }
  static __device__ __forceinline__ void tile(const ChainParameters& p, const ChainTile& tile,
                                              int next, Weights& weights) {
    chain_arrived<Load::kAsync>();
    const ChainWork w0{p.stage[0], p.image[0], p.image[1], p.image[0], tile, 0};
    chain_dense<ChainMma<half, 64, 64, 2, 4>, Epilogue0, Sink0>(w0, weights);
    __syncthreads();
    if (next < p.tiles) bring(p, ChainTile(p, next, tile.shared));
    const ChainWork w1{p.stage[1], p.image[1], p.image[2], p.image[0], tile, 0};
    chain_dense<ChainMma<half, 64, 64, 2, 4>, Epilogue1, Sink1>(w1, weights);
  }
};

}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(256, 2)
chain_sm80_f28123e7cfb8ecd7(const __grid_constant__ ChainParameters p) {
  chain<Chain>(p);
}
