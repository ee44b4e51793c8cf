// Convolutions one after another in one kernel. A block takes a tile of the last result and all
// that it needs of the images before (the halo); these stay in shared memory, stage after stage.
//
//   tile:   load input -> stage 0 -> ... -> last stage -> memory
//   dense:  an implicit product: rows are pixels of the stage's part, columns output channels, the
//           depth counts taps and channels; rows are gathered out of the image in shared memory
//   others: a thread makes 16 bytes of channels of a few pixels
//
// An image with many channels may be held in part: then the stages from the one that makes it to
// the dense one that sums over its channels are repeated for each part (a pass). Which stages there
// are, and in what order, is emitted: struct Chain has
//   Element            T of the policies in chain_multiply.cuh
//   Weights            of chain_weights.cuh
//   tables(p, table)   offsets of the steps of dense stages
//   kAhead             a tile's input is brought while the tile before is finished
//   bring(p, tile)     begins to bring it
//   tile(p, tile, next, weights)
//
// Shared memory: images, the scratch of each warp (wmma), weights, offsets of steps.
#pragma once

#include "braze/chain_multiply.cuh"
#include "braze/chain_weights.cuh"
#include "braze/divide.cuh"
#include "braze/epilogue.cuh"

namespace braze::device {

struct ChainTile {
  int n, at[2];  // the image; the tile's row and column
  unsigned char* shared;
  const int* table;
  float* scratch;
  __device__ ChainTile(const ChainParameters& p, int tile, unsigned char* memory)
      : shared(memory),
        table(reinterpret_cast<const int*>(memory + p.table_at)),
        scratch(reinterpret_cast<float*>(memory + p.scratch_at)) {
    auto rest = static_cast<u32>(tile);
    at[1] = split_off(rest, p.tiles_across);
    at[0] = split_off(rest, p.tiles_down);
    n = static_cast<int>(rest);
  }
  __device__ __forceinline__ int first(const ChainImage& image, int axis) const {
    return image.first[axis] + at[axis] * image.step[axis];
  }
};

/// A stage and the images it reads and makes; `operand` is one that its epilogue reads on chip.
struct ChainWork {
  const ChainStage& s;
  const ChainImage &from, &to, &operand;
  const ChainTile& tile;
  int channel;  // the first of those that it makes now
};

/// Bytes from an image's place in shared memory to a pixel.
__device__ __forceinline__ int chain_offset(const ChainImage& image, int row, int column) {
  return image.at + (row * image.columns + column) * image.pitch;
}

/// Where results go: to the image on chip, to memory as Y, or both.
template <class T, bool kChip, bool kMemory, class Y, Store kStore, bool kOperandOnChip>
struct ChainSink {
  using Element = T;
  static constexpr bool kOnChip = kChip, kInMemory = kMemory, kOperand = kOperandOnChip;
  using Stored = Y;
  static constexpr Store kHow = kStore;
};

/// What the epilogue of V channels, from `local` of those made now, needs for every pixel.
template <class Epilogue, int V>
__device__ __forceinline__ typename Epilogue::template Constants<V> chain_constants(
    const ChainWork& w, int local) {
  typename Epilogue::template Constants<V> constants;
  const int channel = w.channel + local;
  Epilogue::load(constants, w.s.e, channel < w.s.outputs ? channel : 0);
  return constants;
}

/// Finishes V channels, from `local` of those made now, of a pixel of the stage's part.
template <class Epilogue, class Sink, int V>
__device__ __forceinline__ void chain_put(
    const ChainWork& w, int row, int column, int local, float (&v)[V],
    const typename Epilogue::template Constants<V>& constants) {
  using T = typename Sink::Element;
  const int y = w.tile.first(w.to, 0) + row, x = w.tile.first(w.to, 1) + column;
  const bool inside = static_cast<u32>(y) < static_cast<u32>(w.to.extent[0]) &&
                      static_cast<u32>(x) < static_cast<u32>(w.to.extent[1]);
  Position at;
  at.n = w.tile.n;
  at.pixel = y * w.to.extent[1] + x;
  at.channel = w.channel + local;
  at.count = min(V, w.s.outputs - at.channel);
  const bool exists = inside && at.count > 0;
  if (exists) {
    if constexpr (Sink::kOperand) {
      at.staged =
          w.tile.shared +
          chain_offset(w.operand, row + w.s.operand_shift[0], column + w.s.operand_shift[1]) +
          at.channel * static_cast<int>(sizeof(T));
    }
    Epilogue::template apply<V>(v, w.s.e, at, constants);
  }
  if constexpr (Sink::kOnChip) {
    if (!exists || at.count < V) {
      BRAZE_UNROLL
      for (int i = 0; i < V; ++i) v[i] = exists && i < at.count ? v[i] : 0.0f;
    }
    if (local < w.to.held) {
      store_vector<T, V>(
          reinterpret_cast<T*>(w.tile.shared + chain_offset(w.to, row, column)) + local, v);
    }
  }
  if constexpr (Sink::kInMemory) {
    if (exists) store_result<typename Sink::Stored, Sink::kHow, V>(v, w.s.y, at);
  }
}

/// Brings channels [channel, channel + held) of the input's part; chain_arrived() waits for them.
template <class X, class T, Load kLoad>
__device__ void chain_load(const ChainParameters& p, const ChainImage& image, const ChainTile& tile,
                           int channel) {
  constexpr int kChunk = 16 / static_cast<int>(sizeof(T));
  constexpr int kAtOnce = kLoad == Load::kAsync ? 1 : 4;
  const X* const x = static_cast<const X*>(p.x) + tile.n * p.x_n;
  const int pixels = image.rows * image.columns;
  const int count = pixels * image.chunks.divisor;
  for (int begin = static_cast<int>(threadIdx.x); begin < count; begin += kChainThreads * kAtOnce) {
    Vector<X, kChunk> raw[kAtOnce];
    unsigned char* to[kAtOnce];
    BRAZE_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = min(begin + j * kChainThreads, count - 1);
      // Adjacent threads take adjacent chunks, or pixels where they lie one by one.
      int chunk, pixel;
      if constexpr (kLoad == Load::kElements) {
        chunk = i / pixels;
        pixel = i - chunk * pixels;
      } else {
        auto rest = static_cast<u32>(i);
        chunk = split_off(rest, image.chunks);
        pixel = static_cast<int>(rest);
      }
      auto row = static_cast<u32>(pixel);
      const int column = split_off(row, image.across);
      const int h = tile.first(image, 0) + static_cast<int>(row);
      const int w = tile.first(image, 1) + column;
      const bool inside = static_cast<u32>(h) < static_cast<u32>(image.extent[0]) &&
                          static_cast<u32>(w) < static_cast<u32>(image.extent[1]);
      const int c = channel + chunk * kChunk;
      const int exist = inside ? max(min(kChunk, image.channels - c), 0) : 0;
      const X* const from = exist == 0 ? x : x + h * p.x_row + w * p.x_column + c * p.x_channel;
      to[j] = tile.shared + image.at + pixel * image.pitch + chunk * 16;
      if constexpr (kLoad == Load::kAsync) {
        cp_async_16(to[j], from, exist * static_cast<int>(sizeof(T)));
      } else if (kLoad == Load::kVectors && exist == kChunk) {
        raw[j] = *reinterpret_cast<const Vector<X, kChunk>*>(from);
      } else {
        BRAZE_UNROLL
        for (int e = 0; e < kChunk; ++e)
          raw[j].at[e] = e < exist ? from[e * p.x_channel] : from_float<X>(0.0f);
      }
    }
    if constexpr (kLoad != Load::kAsync) {
      BRAZE_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        if (begin + j * kChainThreads >= count) continue;
        Vector<T, kChunk> chunk;
        BRAZE_UNROLL
        for (int e = 0; e < kChunk; ++e) chunk.at[e] = to_element<T>(raw[j].at[e]);
        *reinterpret_cast<Vector<T, kChunk>*>(to[j]) = chunk;
      }
    }
  }
  if constexpr (kLoad == Load::kAsync) cp_async_commit();
}

template <Load kLoad>
__device__ __forceinline__ void chain_arrived() {
  if constexpr (kLoad == Load::kAsync) cp_async_wait<0>();
  __syncthreads();
}

/// Offsets of a dense stage's steps from the first of its window.
__device__ __forceinline__ void chain_table(const ChainStage& s, const ChainImage& from,
                                            int* table) {
  for (int i = static_cast<int>(threadIdx.x); i < s.depth; i += kChainThreads) {
    const int tap = i / s.of_tap, row = tap / s.kernel[1], column = tap - row * s.kernel[1];
    table[s.table + i] =
        (row * s.dilation[0] * from.columns + column * s.dilation[1]) * from.pitch +
        (i - tap * s.of_tap) * 32;
  }
}

/// The product takes pixels from row `first` on.
template <class Multiply>
__device__ __forceinline__ void chain_rows(Multiply& sums, const ChainWork& w, int first) {
  sums.rows(
      [&](int row) {
        auto line = static_cast<u32>(row + first < w.s.rows ? row + first : 0);
        const int column = split_off(line, w.s.line);
        return chain_offset(w.from, static_cast<int>(line) * w.s.stride[0] + w.s.shift[0],
                            column * w.s.stride[1] + w.s.shift[1]);
      },
      w.s.stride[1] * w.from.pitch);
}

/// sums += all of the depth there is of one tile of columns.
template <class Multiply, class Weights>
__device__ __forceinline__ void chain_multiply(Multiply& sums, const ChainWork& w,
                                               Weights& weights) {
  constexpr int kStepBytes = Multiply::kColumns * 32, kSteps = kChainSlotBytes / kStepBytes;
  const int* table = w.tile.table + w.s.table;
  int left = w.s.depth;
  for (; left >= kSteps; left -= kSteps, table += kSteps) {
    const unsigned char* const slot = weights.acquire();
    BRAZE_UNROLL
    for (int i = 0; i < kSteps; ++i) sums.step(w.tile.shared + table[i], slot + i * kStepBytes);
  }
  if (left == 0) return;
  const unsigned char* slot = weights.acquire();
#pragma unroll 1
  for (int i = 0; i < left; ++i, slot += kStepBytes) sums.step(w.tile.shared + table[i], slot);
}

/// Finishes pixels from row `first` on and channels from `local` of those made now.
template <class Epilogue, class Sink, class Multiply>
__device__ __forceinline__ void chain_finish(const Multiply& sums, const ChainWork& w, int first,
                                             int local) {
  using Constants = typename Epilogue::template Constants<Multiply::kVector>;
  const auto begin = [&](int channel) {
    return chain_constants<Epilogue, Multiply::kVector>(w, local + channel);
  };
  sums.finish(w.tile.scratch, begin,
              [&](int row, int channel, float(&v)[Multiply::kVector], const Constants& constants) {
                row += first;
                auto line = static_cast<u32>(row);
                const int at = split_off(line, w.s.line);
                if (row < w.s.rows && at < w.to.columns)
                  chain_put<Epilogue, Sink>(w, static_cast<int>(line), at, local + channel, v,
                                            constants);
              });
}

/// All pixels, and column_tiles of the channels.
template <class Multiply, class Epilogue, class Sink, class Weights>
__device__ __forceinline__ void chain_dense(const ChainWork& w, Weights& weights) {
  for (int column = 0; column < w.s.column_tiles; ++column) {
    for (int row = 0; row < w.s.row_tiles; ++row) {
      Multiply sums;
      chain_rows(sums, w, row * Multiply::kRows);
      chain_multiply(sums, w, weights);
      chain_finish<Epilogue, Sink>(sums, w, row * Multiply::kRows, column * Multiply::kColumns);
    }
  }
}

/// sum[j] += taps of the j-th of P adjacent pixels, whose windows begin in a line of the part: at
/// `column` and kStride (0: any, dilated too) from one to the next. Of a known stride, each pixel
/// of the line is read once.
template <int kKernel, int kStride, class T, int P, int V>
__device__ __forceinline__ void chain_taps(float (&sum)[P][V], const ChainWork& w,
                                           const unsigned char* line, int column,
                                           const T* weights) {
  const int end = w.from.columns - 1;  // what lies past it is of pixels that do not exist
  const auto load = [&](float(&x)[V], int at) {
    load_vector<T, V>(x, reinterpret_cast<const T*>(line + min(at, end) * w.from.pitch));
  };
  if constexpr (kStride > 0) {
    float by[kKernel][V];
    BRAZE_UNROLL
    for (int c = 0; c < kKernel; ++c) load_vector<T, V>(by[c], weights + c * w.s.slab);
    BRAZE_UNROLL
    for (int at = 0; at < (P - 1) * kStride + kKernel; ++at) {
      float x[V];
      load(x, column + at);
      BRAZE_UNROLL
      for (int j = 0; j < P; ++j) {
        const int c = at - j * kStride;
        if (c < 0 || c >= kKernel) continue;
        BRAZE_UNROLL
        for (int e = 0; e < V; ++e) sum[j][e] += x[e] * by[c][e];
      }
    }
  } else {
    for (int c = 0; c < w.s.kernel[1]; ++c, weights += w.s.slab) {
      float by[V];
      load_vector<T, V>(by, weights);
      BRAZE_UNROLL
      for (int j = 0; j < P; ++j) {
        float x[V];
        load(x, column + j * w.s.stride[1] + c * w.s.dilation[1]);
        BRAZE_UNROLL
        for (int e = 0; e < V; ++e) sum[j][e] += x[e] * by[e];
      }
    }
  }
}

/// Each channel by itself: a thread makes P adjacent pixels. kKernel, kStride: columns of the
/// filter and from pixel to pixel, where the kernel is for these only.
template <int kKernel, int kStride, int P, class Epilogue, class Sink, class Weights>
__device__ __forceinline__ void chain_depthwise(const ChainWork& w, Weights& weights) {
  using T = typename Sink::Element;
  constexpr int V = 16 / static_cast<int>(sizeof(T));
  for (int slab = 0; slab < w.to.held; slab += w.s.slab) {
    const T* const filter = reinterpret_cast<const T*>(weights.acquire());
    const int chunks = min(w.s.slab, w.to.held - slab) / V;
    const int count = w.to.rows * w.s.runs.divisor * chunks;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kChainThreads) {
      auto row = static_cast<u32>(i / chunks);
      const int chunk = i - static_cast<int>(row) * chunks;
      const int column = split_off(row, w.s.runs) * P;
      float sum[P][V] = {};
      const unsigned char* line =
          w.tile.shared +
          chain_offset(w.from, static_cast<int>(row) * w.s.stride[0] + w.s.shift[0], 0) +
          slab * static_cast<int>(sizeof(T)) + chunk * 16;
      const T* by = filter + chunk * V;
#pragma unroll 1
      for (int r = 0; r < w.s.kernel[0]; ++r) {
        chain_taps<kKernel, kStride>(sum, w, line, column * w.s.stride[1] + w.s.shift[1], by);
        line += w.s.dilation[0] * w.from.columns * w.from.pitch;
        by += w.s.kernel[1] * w.s.slab;
      }
      const int local = slab + chunk * V;
      const auto constants = chain_constants<Epilogue, V>(w, local);
      BRAZE_UNROLL
      for (int j = 0; j < P; ++j) {
        if (column + j < w.to.columns)
          chain_put<Epilogue, Sink>(w, static_cast<int>(row), column + j, local, sum[j], constants);
      }
    }
  }
}

/// Taps of a window that begins at `first` and lie in [begin, end).
__device__ __forceinline__ int chain_counted(const ChainStage& s, int axis, int first) {
  int count = 0;
  for (int tap = 0; tap < s.kernel[axis]; ++tap) {
    const int at = first + tap * s.dilation[axis];
    count += at >= s.counted_begin[axis] && at < s.counted_end[axis];
  }
  return count;
}

enum class ChainPool { kMax, kAverage, kNone };

/// Windows without weights. kNone: a window of one pixel, for the epilogue.
template <ChainPool kPool, class Epilogue, class Sink>
__device__ __forceinline__ void chain_pool(const ChainWork& w) {
  using T = typename Sink::Element;
  constexpr int V = 16 / static_cast<int>(sizeof(T));
  const int count = w.to.rows * w.to.columns * w.to.chunks.divisor;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kChainThreads) {
    auto row = static_cast<u32>(i);
    const int chunk = split_off(row, w.to.chunks);
    const int column = split_off(row, w.to.across);
    // Of the part, and of the image.
    const int h = static_cast<int>(row) * w.s.stride[0] + w.s.shift[0];
    const int x = column * w.s.stride[1] + w.s.shift[1];
    const int top = w.tile.first(w.from, 0) + h, left = w.tile.first(w.from, 1) + x;
    float v[V];
    BRAZE_UNROLL
    for (int e = 0; e < V; ++e) v[e] = kPool == ChainPool::kMax ? -kInfinity : 0.0f;
    for (int r = 0; r < w.s.kernel[0]; ++r) {
      for (int c = 0; c < w.s.kernel[1]; ++c) {
        const int dy = r * w.s.dilation[0], dx = c * w.s.dilation[1];
        const bool inside = static_cast<u32>(top + dy) < static_cast<u32>(w.from.extent[0]) &&
                            static_cast<u32>(left + dx) < static_cast<u32>(w.from.extent[1]);
        if (kPool == ChainPool::kMax && !inside) continue;
        float tap[V];
        load_vector<T, V>(
            tap, reinterpret_cast<const T*>(w.tile.shared + chain_offset(w.from, h + dy, x + dx) +
                                            chunk * 16));
        BRAZE_UNROLL
        for (int e = 0; e < V; ++e)
          v[e] = kPool == ChainPool::kMax ? maximum(v[e], tap[e]) : v[e] + tap[e];
      }
    }
    if constexpr (kPool == ChainPool::kAverage) {
      const int counted = chain_counted(w.s, 0, top) * chain_counted(w.s, 1, left);
      const float scale = counted == 0 ? 0.0f : 1.0f / static_cast<float>(counted);
      BRAZE_UNROLL
      for (int e = 0; e < V; ++e) v[e] *= scale;
    }
    chain_put<Epilogue, Sink>(w, static_cast<int>(row), column, chunk * V, v,
                              chain_constants<Epilogue, V>(w, chunk * V));
  }
}

template <class Chain>
__device__ void chain(const ChainParameters& p) {
  BRAZE_DYNAMIC_SHARED(shared);
  typename Chain::Weights weights(p, shared + p.weights_at);
  Chain::tables(p, reinterpret_cast<int*>(shared + p.table_at));
  grid_dependency_wait();
  launch_dependents();
  __syncthreads();
  if constexpr (Chain::kAhead) Chain::bring(p, ChainTile(p, static_cast<int>(blockIdx.x), shared));
  int next = 0;
  for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles; tile = next) {
    next = tile + static_cast<int>(gridDim.x);
    Chain::tile(p, ChainTile(p, tile, shared), next, weights);
    __syncthreads();
  }
}

}  // namespace braze::device
