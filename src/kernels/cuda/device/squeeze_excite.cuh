// Squeeze and excitation of images:
//
//   m = mean over the pixels of x     kPool; else m is read
//   h = Squeeze(W1 m)
//   g = Excite(W2 h)
//   y = Scale(x g)                    kScale; else g is stored
//
// A block has a slice of an image's channels and a range of its pixels. kSlices blocks share the
// channels: each multiplies its columns of W1, they exchange what they have of h, and each goes on
// with its rows of W2. Where kPool, the image's kRanges ranges are blocks of the same cluster and
// exchange their sums first; else every range makes h and g anew and is independent of the others.
// Sums are of fp32 and in one order, whoever makes them. Vectors of x that fit stay in shared
// memory until they are scaled.
#pragma once

#include "braze/epilogue.cuh"
#include "braze/ptx_sm90.cuh"
#include "braze/squeeze_excite_parameters.h"

namespace braze::device {

/// Which vectors of V channels of its slice and range a thread has: pixels first + row, + rows, ...
/// of columns column, + columns, ...
struct SqueezeExciteShare {
  int columns, rows;  // of the block's threads
  int column, row;
  int vectors;       // of the slice
  int begin, count;  // of the range: first pixel, pixels
  int steps;         // pixels of a thread and column, the last of which may not exist

  template <int V, int kThreads, bool kPixelsTogether>
  static __device__ __forceinline__ SqueezeExciteShare of(const SqueezeExciteParameters& p,
                                                          int range, int channels) {
    SqueezeExciteShare share;
    const int t = static_cast<int>(threadIdx.x);
    share.vectors = ceil_div(channels, V);
    share.columns = min(share.vectors, kThreads);
    share.rows = kThreads / share.columns;
    share.column = kPixelsTogether ? t / share.rows : t % share.columns;
    share.row = kPixelsTogether ? t % share.rows : t / share.columns;
    share.begin = range * p.range;
    share.count = max(0, min(p.range, p.pixels - share.begin));
    share.steps = ceil_div(share.count, share.rows);
    return share;
  }
  __device__ __forceinline__ bool has(int column, int pixel) const {
    return column < vectors && row < rows && pixel < count;
  }
};

/// finish(r, sum of w[r][k] x[k]) for all rows r of `length` weights, a multiple of 8; `lanes`
/// threads share a row.
template <class W, int kThreads, class Finish>
__device__ __forceinline__ void squeeze_excite_product(const W* w, const float* x, int rows,
                                                       int length, int lanes, Finish&& finish) {
  const int t = static_cast<int>(threadIdx.x), lane = t % lanes;
  for (int first = 0; first < rows; first += kThreads / lanes) {
    const int r = first + t / lanes;
    float sum = 0.0f;
    for (int k = lane * 8; r < rows && k < length; k += lanes * 8) {
      float a[8], b[8];
      load_vector<W, 8>(a, w + r * length + k);
      load_vector<float, 8>(b, x + k);
      BRAZE_UNROLL
      for (int i = 0; i < 8; ++i) sum += a[i] * b[i];
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (lane == 0 && r < rows) finish(r, sum);
  }
}

/// Sends `count` floats (a multiple of 4) to place `mine` of each of `blocks` blocks of the
/// cluster: every `step`-th from `first` on. value(i) gives four of them.
template <int kThreads, class Value>
__device__ __forceinline__ void squeeze_excite_send(float* places, Barrier* barrier, int mine,
                                                    int count, int blocks, int first, int step,
                                                    Value&& value) {
  const int quads = count / 4;
  for (int i = static_cast<int>(threadIdx.x); i < blocks * quads; i += kThreads) {
    const u32 to = static_cast<u32>(first + i / quads * step);
    const int at = i % quads * 4;
    float v[4];
    value(v, at);
    cluster_store_async(cluster_address(places + mine * count + at, to),
                        cluster_address(barrier, to), v[0], v[1], v[2], v[3]);
  }
}

/// X, M, Y: elements of x, of the means that are read, and of the result; W: of the weights. V
/// channels of x are read at once, or V is 1. kPixelsTogether: neighbouring threads take pixels.
template <class X, class M, class Y, class W, int V, bool kPixelsTogether, bool kPool, bool kScale,
          int kSlices, int kRanges, int kThreads, class Squeeze, class Excite, class Scale>
__device__ __forceinline__ void squeeze_excite(const SqueezeExciteParameters& p) {
  constexpr bool kCluster = kSlices * kRanges > 1;
  constexpr int kAhead = V > 1 ? 8 : 4;  // vectors that are under way together
  BRAZE_DYNAMIC_SHARED(shared);
  // Of sums of pixels, of parts of h.
  Barrier* const exchanged = reinterpret_cast<Barrier*>(shared + p.exchanged_at);
  const auto floats = [&](int at) { return reinterpret_cast<float*>(shared + at); };
  float* const partial = floats(p.partial_at);  // [row][channel]
  float* const groups = floats(p.groups_at);    // [group of rows][channel]
  float* const totals = floats(p.totals_at);    // [range][slice], from the cluster
  float* const mean = floats(p.mean_at);        // [slice]
  float* const parts = floats(p.parts_at);      // [slice][hidden_padded], from the cluster
  float* const hidden = floats(p.hidden_at);    // [hidden_padded]
  float* const gate = floats(p.gate_at);        // [slice]
  using Vectors = Vector<X, V>;
  Vectors* const held = reinterpret_cast<Vectors*>(shared + p.held_at);  // [number][thread]

  const int t = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const int slice = block % kSlices, range = block / kSlices % p.ranges;
  const int n = block / kSlices / p.ranges;
  const int first = slice * p.slice, channels = min(p.slice, p.channels - first);
  const auto share = SqueezeExciteShare::of<V, kThreads, kPixelsTogether>(p, range, channels);

  launch_dependents();
  if constexpr (kCluster) {
    if (t == 0) {
      barrier_init(exchanged, 1);
      barrier_init(exchanged + 1, 1);
      barrier_init_fence();
      if (kPool && kRanges > 1)
        barrier_arrive_expect(exchanged, static_cast<u32>(kRanges * p.slice * 4));
      if (kSlices > 1)
        barrier_arrive_expect(exchanged + 1, static_cast<u32>(kSlices * p.hidden_padded * 4));
    }
    __syncthreads();
    cluster_arrive();
  }
  // Weights are no kernel's result: they arrive while the image does.
  const auto* const from =
      static_cast<const unsigned char*>(p.weights) + static_cast<i64>(slice) * p.weights_bytes;
  for (int i = t * 16; i < p.weights_bytes; i += kThreads * 16)
    cp_async_16(shared + i, from + i, 16);
  cp_async_commit();
  grid_dependency_wait();
  if constexpr (kCluster) cluster_wait();

  const X* const x =
      static_cast<const X*>(p.x) + n * p.x_n + share.begin * p.x_pixel + first * p.x_channel;
  const auto load = [&](int column, int pixel) {
    Vectors v;
    const X* const from = x + pixel * p.x_pixel + column * V * p.x_channel;
    if (share.has(column, pixel)) {
      v = *reinterpret_cast<const Vectors*>(from);
    } else {
      BRAZE_UNROLL
      for (int i = 0; i < V; ++i) v.at[i] = from_float<X>(0.0f);
    }
    return v;
  };

  // m, of this slice.
  if constexpr (kPool) {
    int number = 0;
    for (int column = share.column; column < share.vectors; column += share.columns) {
      float sum[V];
      BRAZE_UNROLL
      for (int i = 0; i < V; ++i) sum[i] = 0.0f;
      for (int step = 0; step < share.steps; step += kAhead) {
        Vectors in[kAhead];
        BRAZE_UNROLL
        for (int j = 0; j < kAhead; ++j) in[j] = load(column, (step + j) * share.rows + share.row);
        BRAZE_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          BRAZE_UNROLL
          for (int i = 0; i < V; ++i) sum[i] += to_float(in[j].at[i]);
          if (kScale && step + j < share.steps && number + step + j < p.held)
            held[(number + step + j) * kThreads + t] = in[j];
        }
      }
      number += share.steps;
      if (share.row < share.rows)
        store_vector<float, V>(partial + share.row * channels + column * V, sum);
    }
    __syncthreads();
    // Rows in two steps: as many groups of them as there are threads for.
    const int count = min(share.rows, max(1, kThreads / channels));
    for (int i = t; i < count * channels; i += kThreads) {
      const int group = i / channels, c = i % channels;
      float sum = 0.0f;
      for (int row = group; row < share.rows; row += count) sum += partial[row * channels + c];
      groups[i] = sum;
    }
    __syncthreads();
    const auto total = [&](int c) {
      float sum = 0.0f;
      for (int group = 0; c < channels && group < count; ++group)
        sum += groups[group * channels + c];
      return sum;
    };
    if constexpr (kRanges > 1) {
      squeeze_excite_send<kThreads>(totals, exchanged, range, p.slice, kRanges, slice, kSlices,
                                    [&](float(&v)[4], int at) {
                                      BRAZE_UNROLL
                                      for (int i = 0; i < 4; ++i) v[i] = total(at + i);
                                    });
      barrier_wait_cluster(exchanged, 0);
    }
    for (int c = t; c < p.slice; c += kThreads) {
      float sum = 0.0f;
      if constexpr (kRanges > 1) {
        BRAZE_UNROLL
        for (int i = 0; i < kRanges; ++i) sum += totals[i * p.slice + c];
      } else {
        sum = total(c);
      }
      mean[c] = sum / static_cast<float>(p.pixels);
    }
  } else {
    const M* const from = static_cast<const M*>(p.mean) + n * p.mean_n + first * p.mean_channel;
    for (int c = t; c < p.slice; c += kThreads)
      mean[c] = c < channels ? to_float(from[c * p.mean_channel]) : 0.0f;
  }

  // h, all of it; its padding is zero.
  const auto squeeze = [&](int k, float sum) {
    float v[1] = {sum};
    Squeeze::apply(v, p.squeeze, {p.squeeze_rows != 0 ? 0 : n, p.squeeze_rows != 0 ? n : 0, k, 1});
    hidden[k] = v[0];
  };
  if (t < p.hidden_padded - p.hidden) hidden[p.hidden + t] = 0.0f;
  cp_async_wait<0>();
  __syncthreads();
  const W* const weights = reinterpret_cast<const W*>(shared);
  if constexpr (kSlices == 1) {
    squeeze_excite_product<W, kThreads>(weights, mean, p.hidden, p.slice, p.squeeze_lanes, squeeze);
  } else {
    float* const part = partial;  // whose sums have been read
    squeeze_excite_product<W, kThreads>(weights, mean, p.hidden, p.slice, p.squeeze_lanes,
                                        [&](int k, float sum) { part[k] = sum; });
    __syncthreads();
    squeeze_excite_send<kThreads>(parts, exchanged + 1, slice, p.hidden_padded, kSlices,
                                  kPool ? range * kSlices : 0, 1, [&](float(&v)[4], int at) {
                                    BRAZE_UNROLL
                                    for (int i = 0; i < 4; ++i)
                                      v[i] = at + i < p.hidden ? part[at + i] : 0.0f;
                                  });
    barrier_wait_cluster(exchanged + 1, 0);
    for (int k = t; k < p.hidden; k += kThreads) {
      float sum = 0.0f;
      BRAZE_UNROLL
      for (int i = 0; i < kSlices; ++i) sum += parts[i * p.hidden_padded + k];
      squeeze(k, sum);
    }
  }
  __syncthreads();

  // g, of this slice.
  const W* const excite_weights = reinterpret_cast<const W*>(shared + p.excite_at);
  squeeze_excite_product<W, kThreads>(
      excite_weights, hidden, channels, p.hidden_padded, p.excite_lanes, [&](int c, float sum) {
        float v[1] = {sum};
        const Position at{p.excite_rows != 0 ? 0 : n, p.excite_rows != 0 ? n : 0, first + c, 1};
        Excite::apply(v, p.excite, at);
        if constexpr (kScale) {
          gate[c] = v[0];
        } else {
          store_result<Y, Store::kEach>(v, p.y, at);
        }
      });

  if constexpr (kScale) {
    __syncthreads();
    int number = 0;
    for (int column = share.column; column < share.vectors; column += share.columns) {
      float g[V];
      BRAZE_UNROLL
      for (int i = 0; i < V; ++i) g[i] = gate[column * V + i];
      for (int step = 0; step < share.steps; step += kAhead) {
        Vectors in[kAhead];
        BRAZE_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          const int here = number + step + j;
          if (kPool && step + j < share.steps && here < p.held)
            in[j] = held[here * kThreads + t];
          else
            in[j] = load(column, (step + j) * share.rows + share.row);
        }
        BRAZE_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          const int pixel = (step + j) * share.rows + share.row;
          if (!share.has(column, pixel)) continue;
          float v[V];
          BRAZE_UNROLL
          for (int i = 0; i < V; ++i) v[i] = to_float(in[j].at[i]) * g[i];
          const Position at{n, share.begin + pixel, first + column * V, V};
          Scale::apply(v, p.scale, at);
          store_result<Y, (V > 1 ? Store::kVector : Store::kEach)>(v, p.y, at);
        }
      }
      number += share.steps;
    }
  }
}

}  // namespace braze::device
