// One tile of y = epilogue(alpha a b^T): a ring of stages in shared memory, filled while the stages
// before are multiplied; then the sums go through shared memory to threads that each finish V
// adjacent channels of a pixel.
//
// Multiply is what the instruction families differ in:
//   Element, Place, kRows, kColumns, kThreads
//   multiply(a, b)  sum += product of two stages
//   put(to, pitch)  writes the sums, row by row
#pragma once

#include "braze/epilogue.cuh"
#include "braze/product_rows.cuh"

namespace braze::device {

/// Who finishes what: adjacent threads take adjacent channels, adjacent pixels, or adjacent columns
/// one by one, where a result has batch axes between its channels and its rows.
enum class Finish { kChannels, kPixels, kFlat };

struct ProductTile {
  int column, row, split, product;  // tiles, not elements
  __device__ explicit ProductTile(const ProductParameters& p) {
    u32 rest = blockIdx.x;
    column = static_cast<int>(rest % static_cast<u32>(p.column_tiles));
    rest /= static_cast<u32>(p.column_tiles);
    row = static_cast<int>(rest % static_cast<u32>(p.row_tiles));
    rest /= static_cast<u32>(p.row_tiles);
    split = static_cast<int>(rest % static_cast<u32>(p.splits));
    product = static_cast<int>(rest / static_cast<u32>(p.splits));
  }
  /// Number among the tiles of all products.
  __device__ int index(const ProductParameters& p) const {
    return (product * p.row_tiles + row) * p.column_tiles + column;
  }
};

/// a / b, of which 32 bits are mostly enough: that is much faster.
__device__ __forceinline__ i64 quotient(i64 a, int b) {
  if (a >> 32 == 0) return static_cast<u32>(a) / static_cast<u32>(b);
  return a / b;
}

/// Floats from row to row of the sums in shared memory.
template <class Multiply>
inline constexpr int kSumPitch = Multiply::kColumns + 8;

template <class Multiply, class Y, Store kStore, int V, Finish kFinish, class Epilogue>
__device__ __forceinline__ void finish_vector(const ProductParameters& p, const ProductTile& tile,
                                              int row, int column, float (&v)[V]) {
  row += tile.row * Multiply::kRows;
  column += tile.column * Multiply::kColumns;
  if (row >= p.a.rows || column >= p.columns) return;
  BRAZE_UNROLL
  for (int i = 0; i < V; ++i) v[i] *= p.alpha;
  Position at;
  at.count = min(V, p.columns - column);
  if constexpr (kFinish == Finish::kFlat) {
    const i64 flat = (static_cast<i64>(tile.product) * p.a.rows + row) * p.columns + column;
    const int inner = p.channels_inside != 0 ? p.y.channels : p.y.pixels;
    const i64 rest = quotient(flat, inner);
    const auto first = static_cast<int>(flat - rest * inner);
    if (p.channels_inside != 0) {
      at.n = 0;
      at.pixel = static_cast<int>(rest);
      at.channel = first;
    } else {
      at.n = static_cast<int>(quotient(rest, p.y.channels));
      at.channel = static_cast<int>(rest - static_cast<i64>(at.n) * p.y.channels);
      at.pixel = first;
    }
  } else {
    const u32 n = static_cast<u32>(row) / static_cast<u32>(p.y.pixels);
    at.pixel = row - static_cast<int>(n) * p.y.pixels;
    at.n = static_cast<int>(n) + tile.product * p.step_n;
    at.channel = column + tile.product * p.step_channel;
  }
  Epilogue::template apply<V>(v, p.e, at);
  store_result<Y, kStore, V>(v, p.y, at);
}

/// Where split s of this tile leaves its sums.
template <class Multiply>
__device__ __forceinline__ float* partial_of(const ProductParameters& p, const ProductTile& tile,
                                             int split) {
  constexpr int kSize = Multiply::kRows * Multiply::kColumns;
  return p.partial + (static_cast<i64>(tile.index(p)) * p.splits + split) * kSize;
}

/// Leaves the sums of a split in memory. True in the last block of a tile to come, which adds them
/// up in order, so that results do not depend on who is last.
template <class Multiply, int V>
__device__ bool leave_partial(const ProductParameters& p, const ProductTile& tile,
                              const float* sums) {
  __shared__ bool last;
  float* const mine = partial_of<Multiply>(p, tile, tile.split);
  constexpr int kVectors = Multiply::kColumns / V;
  for (int i = static_cast<int>(threadIdx.x); i < Multiply::kRows * kVectors;
       i += Multiply::kThreads) {
    float v[V];
    load_vector<float, V>(v, sums + i / kVectors * kSumPitch<Multiply> + i % kVectors * V);
    store_vector<float, V>(mine + i * V, v);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned* const counter = p.counters + tile.index(p);
    last = atomicAdd(counter, 1u) == static_cast<unsigned>(p.splits) - 1;
    if (last) *counter = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

template <class Multiply, class Y, Store kStore, int V, Finish kFinish, class Epilogue>
__device__ void finish_tile(const ProductParameters& p, const ProductTile& tile,
                            const float* sums) {
  constexpr int kVectors = Multiply::kColumns / V;
  if (p.splits > 1 && !leave_partial<Multiply, 4>(p, tile, sums)) return;
  for (int i = static_cast<int>(threadIdx.x); i < Multiply::kRows * kVectors;
       i += Multiply::kThreads) {
    constexpr bool kAlongPixels = kFinish == Finish::kPixels;
    const int row = kAlongPixels ? i % Multiply::kRows : i / kVectors;
    const int column = (kAlongPixels ? i / Multiply::kRows : i % kVectors) * V;
    float v[V];
    if (p.splits == 1) {
      load_vector<float, V>(v, sums + row * kSumPitch<Multiply> + column);
    } else {
      BRAZE_UNROLL
      for (int j = 0; j < V; ++j) v[j] = 0;
      for (int split = 0; split < p.splits; ++split) {
        float part[V];
        load_from_l2<V>(part,
                        partial_of<Multiply>(p, tile, split) + row * Multiply::kColumns + column);
        BRAZE_UNROLL
        for (int j = 0; j < V; ++j) v[j] += part[j];
      }
    }
    finish_vector<Multiply, Y, kStore, V, kFinish, Epilogue>(p, tile, row, column, v);
  }
}

/// kEarly: b is constant, and may be fetched before the kernel before has ended.
template <class Multiply, class A, Rows kRowsA, Load kLoadA, class B, Load kLoadB, int kStages,
          bool kEarly, class Y, Store kStore, int V, Finish kFinish, class Epilogue>
__device__ void product(const ProductParameters& p) {
  using T = typename Multiply::Element;
  using Place = typename Multiply::Place;
  using RowsA = TileRows<A, T, kRowsA, kLoadA, Place, Multiply::kRows, Multiply::kThreads>;
  using RowsB =
      TileRows<B, T, Rows::kMatrix, kLoadB, Place, Multiply::kColumns, Multiply::kThreads>;
  constexpr int kDepth = Place::kRowBytes / static_cast<int>(sizeof(T));
  constexpr int kStageBytes = RowsA::kBytes + RowsB::kBytes;
  constexpr bool kAsync = RowsA::kAsync || RowsB::kAsync;
  BRAZE_DYNAMIC_SHARED(shared);

  const ProductTile tile(p);
  const int first = tile.split * p.split_blocks;
  const int count = min(p.split_blocks, p.depth_blocks - first);
  RowsA a(p.a, tile.product, tile.row * Multiply::kRows);
  RowsB b(p.b, tile.product, tile.column * Multiply::kColumns);
  const auto stage = [&](int block) { return shared + block % kStages * kStageBytes; };

  if (kRowsA == Rows::kWindows && p.table_entries != 0) {
    auto* const table = reinterpret_cast<DepthEntry*>(shared + kStages * kStageBytes);
    const int begin = first * p.table_entries;
    for (int i = static_cast<int>(threadIdx.x); i < count * p.table_entries;
         i += Multiply::kThreads)
      table[i] = p.a.table[begin + i];
    a.use_table(table - begin);
    __syncthreads();
  }
  constexpr bool kEarlyB = kEarly && RowsB::kAsync;
  if constexpr (kEarlyB) {
    for (int i = 0; i < kStages - 1 && i < count; ++i)
      b.fetch(stage(i) + RowsA::kBytes, (first + i) * kDepth);
  }
  grid_dependency_wait();
  launch_dependents();
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < count) {
      a.fetch(stage(i), (first + i) * kDepth);
      if constexpr (!kEarlyB) b.fetch(stage(i) + RowsA::kBytes, (first + i) * kDepth);
      a.store(stage(i));
      b.store(stage(i) + RowsA::kBytes);
    }
    if constexpr (kAsync) cp_async_commit();
  }

  Multiply sums;
  for (int i = 0; i < count; ++i) {
    if constexpr (kAsync) cp_async_wait<kStages - 2>();
    __syncthreads();  // stage i is there, and everybody is done with the one before
    const int next = i + kStages - 1;
    if (next < count) {
      a.fetch(stage(next), (first + next) * kDepth);
      b.fetch(stage(next) + RowsA::kBytes, (first + next) * kDepth);
    }
    if constexpr (kAsync) cp_async_commit();
    sums.multiply(stage(i), stage(i) + RowsA::kBytes);
    if (next < count) {
      a.store(stage(next));
      b.store(stage(next) + RowsA::kBytes);
    }
  }
  if constexpr (kAsync) cp_async_wait<0>();
  __syncthreads();
  auto* const finished = reinterpret_cast<float*>(shared);
  sums.put(finished, kSumPitch<Multiply>);
  __syncthreads();
  finish_tile<Multiply, Y, kStore, V, kFinish, Epilogue>(p, tile, finished);
}

}  // namespace braze::device
