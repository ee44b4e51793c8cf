// Operands of a product on their way to shared memory: the gather of an implicit GEMM.
//
// A tile of rows lies in shared memory in rows of kRowBytes, in chunks of 16 bytes. A thread always
// brings the same chunks of the same rows, block of depth after block of depth.
#pragma once

#include "braze/product_parameters.h"
#include "braze/types.cuh"

namespace braze::device {

/// Chunks of eight adjacent rows at the same depth lie in different banks.
template <int kBytes>
struct Swizzled {
  static_assert(kBytes == 32 || kBytes == 64 || kBytes == 128, "rows of 32, 64 or 128 bytes");
  static constexpr int kRowBytes = kBytes;
  static constexpr int kPitch = kBytes;
  static __device__ __forceinline__ int at(int row, int chunk) {
    return row * kBytes + ((kBytes == 128  ? chunk ^ (row & 7)
                            : kBytes == 64 ? chunk ^ (row >> 1 & 3)
                                           : chunk ^ (row >> 2 & 1))
                           << 4);
  }
};
/// The same for instructions that take a matrix by its pitch.
template <int kBytes>
struct Padded {
  static constexpr int kRowBytes = kBytes;
  static constexpr int kPitch = kBytes + 16;
  static __device__ __forceinline__ int at(int row, int chunk) {
    return row * kPitch + (chunk << 4);
  }
};

enum class Rows { kMatrix, kPixels, kWindows };
/// How elements travel: in the background, 16 bytes at once; through registers, a chunk at once; or
/// through registers one by one, in which case adjacent threads take adjacent rows.
enum class Load { kAsync, kVectors, kElements };

/// Elements as they lie in shared memory.
template <class T, class In>
__device__ __forceinline__ T to_element(In x) {
  if constexpr (kSame<T, tf32>) {
    return {__uint_as_float(float_to_tf32(to_float(x)))};
  } else if constexpr (kSame<T, In>) {
    return x;
  } else {
    return from_float<T>(to_float(x));
  }
}

/// The first element of a row; of a window, its coordinates too.
struct RowBegin {
  i64 offset;
  int d, h, w;
};

/// kCount rows of In in memory, to be T in shared memory, brought by kThreads threads.
template <class In, class T, Rows kRows, Load kLoad, class Place, int kCount, int kThreads>
class TileRows {
 public:
  static constexpr bool kAsync = kLoad == Load::kAsync;
  static constexpr bool kElements = kLoad == Load::kElements;
  static constexpr int kChunk = 16 / static_cast<int>(sizeof(T));  // elements
  static constexpr int kChunks = Place::kRowBytes / 16;            // of a row
  static constexpr int kBytes = kCount * Place::kPitch;
  static constexpr int kEach = ceil_div(kCount * kChunks, kThreads);

  __device__ TileRows(const ProductRows& rows, int product, int first)
      : rows_(rows),
        data_(static_cast<const In*>(rows.data) +
              (rows.offsets != nullptr ? rows.offsets[product] : product * rows.stride_product)),
        table_(rows.table) {
    BRAZE_UNROLL
    for (int i = 0; i < kBegins; ++i) begin_[i] = begin_of(first + row_of(i));
  }

  /// Reads entries of the table from here: table[k] still is that of depth k.
  __device__ void use_table(const DepthEntry* table) { table_ = table; }

  /// Brings depth [k, k + elements of a row) to a stage, or as far as registers.
  __device__ void fetch(unsigned char* stage, int k) {
    // Chunks of a thread are those of one place in the depth.
    DepthEntry step{};
    if constexpr (kRows == Rows::kWindows && !kElements) step = table_[k / kChunk + chunk_of(0)];
    BRAZE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      if (!has(i)) continue;
      const int depth = k + chunk_of(i) * kChunk;
      if constexpr (kElements) {
        BRAZE_UNROLL
        for (int j = 0; j < kChunk; ++j) raw_[i].at[j] = element(begin_[begin_index(i)], depth + j);
      } else {
        const Span span = span_of(begin_[begin_index(i)], depth, step);
        if constexpr (kAsync) {
          cp_async_16(stage + Place::at(row_of(i), chunk_of(i)), span.from,
                      span.count * static_cast<int>(sizeof(T)));
        } else if (span.count == kChunk) {
          raw_[i] = *reinterpret_cast<const Raw*>(span.from);
        } else {
          BRAZE_UNROLL
          for (int j = 0; j < kChunk; ++j)
            raw_[i].at[j] = j < span.count ? span.from[j] : from_float<In>(0.0f);
        }
      }
    }
  }
  /// Puts what fetch() left in registers into the stage.
  __device__ void store(unsigned char* stage) const {
    if constexpr (!kAsync) {
      BRAZE_UNROLL
      for (int i = 0; i < kEach; ++i) {
        if (!has(i)) continue;
        Vector<T, kChunk> chunk;
        BRAZE_UNROLL
        for (int j = 0; j < kChunk; ++j) chunk.at[j] = to_element<T>(raw_[i].at[j]);
        *reinterpret_cast<Vector<T, kChunk>*>(stage + Place::at(row_of(i), chunk_of(i))) = chunk;
      }
    }
  }

 private:
  using Raw = Vector<In, kChunk>;
  struct Span {
    const In* from;
    int count;
  };
  // Elements: thread t takes rows t, t + kThreads, ... as far as there are, of every chunk.
  static constexpr int kLanes =
      kElements ? (kCount < kThreads ? kCount : kThreads) : kThreads / kChunks;
  static constexpr int kBegins = kElements ? kCount / kLanes : kEach;
  static constexpr int kColumns = kElements ? kThreads / kLanes : kChunks;
  static_assert(kCount % kLanes == 0 || !kElements, "threads divide the rows");

  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
  static __device__ __forceinline__ int begin_index(int i) { return kElements ? i % kBegins : i; }
  static __device__ __forceinline__ int row_of(int i) {
    return kElements ? thread() % kLanes + i % kBegins * kLanes : thread() / kChunks + i * kLanes;
  }
  static __device__ __forceinline__ int chunk_of(int i) {
    return kElements ? thread() / kLanes + i / kBegins * kColumns : thread() % kChunks;
  }
  static __device__ __forceinline__ bool has(int i) {
    if constexpr (kCount * kChunks % kThreads == 0) return true;
    return kElements ? chunk_of(i) < kChunks : row_of(i) < kCount;
  }

  __device__ RowBegin begin_of(int row) const {
    constexpr int kOutside = -(1 << 30);
    if (row >= rows_.rows) return {-1, kOutside, kOutside, kOutside};
    if constexpr (kRows == Rows::kMatrix) {
      return {row * rows_.stride_axis[2], 0, 0, 0};
    } else {
      const int w = row % rows_.out[2];
      int rest = row / rows_.out[2];
      const int h = rest % rows_.out[1];
      rest /= rows_.out[1];
      const int d = rest % rows_.out[0];
      RowBegin begin{rest / rows_.out[0] * rows_.stride_n, d * rows_.stride[0] - rows_.pad[0],
                     h * rows_.stride[1] - rows_.pad[1], w * rows_.stride[2] - rows_.pad[2]};
      begin.offset += begin.d * rows_.stride_axis[0] + begin.h * rows_.stride_axis[1] +
                      begin.w * rows_.stride_axis[2];
      return begin;
    }
  }
  __device__ __forceinline__ bool inside(const RowBegin& begin, const DepthEntry& step) const {
    return static_cast<u32>(begin.d + step.d) < static_cast<u32>(rows_.in[0]) &&
           static_cast<u32>(begin.h + step.h) < static_cast<u32>(rows_.in[1]) &&
           static_cast<u32>(begin.w + step.w) < static_cast<u32>(rows_.in[2]);
  }
  /// A chunk at a depth, which is `step` of a window, and how many of its elements exist.
  __device__ __forceinline__ Span span_of(const RowBegin& begin, int depth,
                                          const DepthEntry& step) const {
    if constexpr (kRows == Rows::kWindows) {
      if (!inside(begin, step)) return {data_, 0};
      return {data_ + begin.offset + step.offset, step.count};
    } else {
      const int count = min(kChunk, rows_.depth - depth);
      if (begin.offset < 0 || count <= 0) return {data_, 0};
      return {data_ + begin.offset + depth, count};
    }
  }
  __device__ __forceinline__ In element(const RowBegin& begin, int depth) const {
    const In zero = from_float<In>(0.0f);
    if constexpr (kRows == Rows::kWindows) {
      const DepthEntry step = table_[depth];
      return inside(begin, step) && step.count > 0 ? data_[begin.offset + step.offset] : zero;
    } else {
      const bool exists = begin.offset >= 0 && depth < rows_.depth;
      return exists ? data_[begin.offset + depth * rows_.stride_depth] : zero;
    }
  }

  const ProductRows& rows_;
  const In* data_;
  const DepthEntry* table_;
  RowBegin begin_[kBegins];
  Raw raw_[kAsync ? 1 : kEach];
};

}  // namespace braze::device
