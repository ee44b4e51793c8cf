// A convolution of few channels (an image's) on the tensor cores: the input rows of a tile of
// pixels lie in shared memory once, channels padded to 4, and windows are read from there. Depth
// counts rows of the filter, then taps of a row padded to whole chunks of 16 bytes, then 4
// channels.
//
//   pixel (oh, ow), chunk (r, s):  image[oh * stride + r][ow * stride + s]
#pragma once

#include "braze/product_sm80.cuh"

namespace braze::device {

/// Numbers of a product's image, of its rows in shared memory above all.
template <class T, int kKernelH, int kChunksOfRow>
struct ImageRows {
  static constexpr int kTaps = 4 / static_cast<int>(sizeof(T));  // of a chunk
  static constexpr int kTapBytes = 4 * static_cast<int>(sizeof(T));
  int width, height, row_bytes;  // taps of a row; rows of one image, padding included
  __device__ explicit ImageRows(const ProductRows& a)
      : width(round_up((a.out[2] - 1) * a.stride[2] + kChunksOfRow * kTaps, kTaps)),
        height((a.out[1] - 1) * a.stride[1] + kKernelH),
        row_bytes(width * kTapBytes) {}
  /// The first row, among those of all images, of the window of a pixel of all images.
  __device__ __forceinline__ int first_of(const ProductRows& a, int pixel) const {
    const int line = pixel / a.out[2], n = line / a.out[1];
    return n * height + (line - n * a.out[1]) * a.stride[1];
  }
};

/// Brings rows [first, end) of the padded images.
template <class A, class T, int kThreads, class Image>
__device__ __forceinline__ void bring_image(const ProductRows& a, const Image& image, int first,
                                            int end, unsigned char* to) {
  constexpr int kAtOnce = 4;
  const A* const x = static_cast<const A*>(a.data);
  const int count = (end - first) * image.width;
  for (int begin = static_cast<int>(threadIdx.x); begin < count; begin += kThreads * kAtOnce) {
    A tap[kAtOnce][4];
    BRAZE_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = begin + j * kThreads, line = i / image.width, row = first + line;
      const int n = row / image.height;
      const int h = row - n * image.height - a.pad[1], w = i - line * image.width - a.pad[2];
      const bool inside = i < count && static_cast<u32>(h) < static_cast<u32>(a.in[1]) &&
                          static_cast<u32>(w) < static_cast<u32>(a.in[2]);
      const i64 at = n * a.stride_n + h * a.stride_axis[1] + w * a.stride_axis[2];
      BRAZE_UNROLL
      for (int c = 0; c < 4; ++c)
        tap[j][c] = inside && c < a.depth ? x[at + c * a.stride_depth] : from_float<A>(0.0f);
    }
    BRAZE_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = begin + j * kThreads;
      if (i >= count) continue;
      Vector<T, 4> out;
      BRAZE_UNROLL
      for (int c = 0; c < 4; ++c) out.at[c] = to_element<T>(tap[j][c]);
      reinterpret_cast<Vector<T, 4>*>(to)[i] = out;
    }
  }
}

/// a.depth: channels; b.depth: elements of a row of weights.
template <class Multiply, class A, int kKernelH, int kKernelW, class Y, Store kStore, int V,
          Finish kFinish, class Epilogue>
__device__ void product_of_image(const ProductParameters& p) {
  using T = typename Multiply::Element;
  constexpr int kTaps = 4 / static_cast<int>(sizeof(T));
  constexpr int kChunksOfRow = ceil_div(kKernelW, kTaps), kChunks = kKernelH * kChunksOfRow;
  BRAZE_DYNAMIC_SHARED(shared);
  ProductTile tile(p);
  const ImageRows<T, kKernelH, kChunksOfRow> image(p.a);
  const int lane = static_cast<int>(threadIdx.x) % 32;

  // Rows of weights lie an odd number of chunks apart: in different banks.
  const int chunks_b = p.b.depth * static_cast<int>(sizeof(T)) / 16, pitch_b = chunks_b * 16 + 16;
  unsigned char* const images = shared + Multiply::kColumns * pitch_b;
  const auto* const b = static_cast<const T*>(p.b.data) +
                        static_cast<i64>(tile.column) * Multiply::kColumns * p.b.depth;
  for (int i = static_cast<int>(threadIdx.x); i < Multiply::kColumns * chunks_b;
       i += Multiply::kThreads) {
    const int row = i / chunks_b, chunk = i - row * chunks_b;
    cp_async_16(shared + row * pitch_b + chunk * 16, b + i * (16 / static_cast<int>(sizeof(T))),
                16);
  }
  cp_async_commit();
  grid_dependency_wait();
  launch_dependents();

  for (; tile.row < p.row_tiles; tile.row += static_cast<int>(gridDim.x) / p.column_tiles) {
    const int begin = tile.row * Multiply::kRows, last = min(begin + Multiply::kRows, p.a.rows) - 1;
    const int first = image.first_of(p.a, begin);
    bring_image<A, T, Multiply::kThreads>(p.a, image, first, image.first_of(p.a, last) + kKernelH,
                                          images);
    cp_async_wait<0>();
    __syncthreads();
    const unsigned char* window[Multiply::kM];
    BRAZE_UNROLL
    for (int i = 0; i < Multiply::kM; ++i) {
      const int pixel = min(begin + Multiply::a_row() + 16 * i, last);
      window[i] = images + (image.first_of(p.a, pixel) - first) * image.row_bytes +
                  pixel % p.a.out[2] * p.a.stride[2] * image.kTapBytes;
    }
    Multiply sums;
    BRAZE_UNROLL
    for (int step = 0; step < ceil_div(kChunks, 2); ++step) {
      // Chunks past the last one are read as chunk 0, and do not count.
      const int even = 2 * step, odd = even + 1 < kChunks ? even + 1 : 0;
      const int chunk = Multiply::a_chunk() == 0 ? even : odd;
      const int offset = chunk / kChunksOfRow * image.row_bytes + chunk % kChunksOfRow * 16;
      // Elements of a fragment: registers 0 and 1 are of the even chunk, 2 and 3 of the odd one.
      const int tap = lane % 4 * kTaps / 4;
      const bool counts[2] = {even % kChunksOfRow * kTaps + tap < kKernelW,
                              even + 1 < kChunks && odd % kChunksOfRow * kTaps + tap < kKernelW};
      sums.step(
          [&](u32(&fragment)[4], int i) {
            ldmatrix_x4(fragment, window[i] + offset);
            BRAZE_UNROLL
            for (int e = 0; e < 4; ++e) fragment[e] = counts[e / 2] ? fragment[e] : 0u;
          },
          [&](u32(&fragment)[4], int j) {
            ldmatrix_x4(fragment, shared + (Multiply::b_row() + j * 16) * pitch_b +
                                      (even + Multiply::b_chunk()) * 16);
          });
    }
    __syncthreads();
    auto* const finished = reinterpret_cast<float*>(images);
    sums.put(finished, kSumPitch<Multiply>);
    __syncthreads();
    finish_tile<Multiply, Y, kStore, V, kFinish, Epilogue>(p, tile, finished);
    __syncthreads();
  }
}

}  // namespace braze::device
