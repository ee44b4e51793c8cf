// Winograd convolution, 3x3 at stride 1: the parts that its files share. Equations:
// docs/winograd.md.
//
//   conv_winograd.cpp            the family's row: what it supports, candidates, build
//   conv_winograd_matrices.cpp   the three matrices of F(2x2,3x3) and F(4x4,3x3)
//   conv_winograd_error.cpp      the error to expect, from the filter
//   conv_winograd_cost.cpp       the time to expect, beside the direct form's
//   conv_winograd_geometry.cpp   how the work is cut; packs the transformed filter
//   conv_winograd_run.cpp        the loops around transforms and products
//   conv_winograd_transform.cpp  transforms of the input and of the products
//
// An m x m tile of outputs needs t x t inputs, t = m + 2:
//   V = B^T d B for each channel;  M[p] = V[p] U[p], a product over channels, for each of the t * t
//   points p;  y = A^T M A for each output channel, U = G g G^T for each filter g.
// Tiles are counted linearly: image, strip of tile columns, tile row, tile column in the strip. A
// segment of them is transformed to V[p][tile][channel]; then, block by block of output channels,
// M[p][tile][output] is made with the inner loops of direct convolution and transformed to y.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/window.hpp"
#include "kernels/cpu/conv_direct.hpp"
#include "kernels/cpu/kernel.hpp"

namespace braze::cpu {

inline constexpr int kWinogradMaxTile = 6;
inline constexpr int kWinogradMaxPoints = kWinogradMaxTile * kWinogradMaxTile;

/// The matrices of F(m, 3); rows and columns beyond t and m are zero.
struct WinogradMatrices {
  int m = 4;  // outputs of a tile, along an axis
  int t = 6;  // inputs of a tile, and points
  std::array<std::array<double, kWinogradMaxTile>, kWinogradMaxTile> b{};  // B^T: [point][input]
  std::array<std::array<double, 3>, kWinogradMaxTile> g{};                 // G: [point][tap]
  std::array<std::array<double, kWinogradMaxTile>, 4> a{};                 // A^T: [output][point]
};
/// m is 2 or 4.
const WinogradMatrices& winograd_matrices(int m);
/// u[point row * t + point column] = G g G^T of a 3x3 filter, in double.
void winograd_filter(const WinogradMatrices& matrices, const float* filter, double* u);

/// A convolution that the family may run.
struct WinogradProblem {
  std::int64_t batch = 1, channels = 1, outputs = 1;
  std::int64_t height = 1, width = 1;  // of the output
  double constant_bytes = 0;           // of the whole network
  int copied_images = 0;               // input and output, if they are to be in model layout
};

/// Largest |error| of an output over the largest |output| to expect of weights [outputs, channels,
/// 3, 3] where inputs are independent of each other; infinite where a transformed weight is not
/// finite.
double winograd_error(const float* weights, std::int64_t outputs, std::int64_t channels, int m);

/// Microseconds to expect of F(m x m, 3x3), and of the direct form.
double winograd_us(const WinogradProblem& problem, int m, const Device& device);
double winograd_direct_us(const WinogradProblem& problem, const Device& device);

/// Transforms the inputs of `tiles` neighbours of a tile row, vectors along channels.
struct WinogradInput {
  const float* const* from = nullptr;  // pixels: [t][tiles * m + 2], each `channels` floats
  std::int64_t from_row = 0;           // pointers from one row of pixels to the next
  std::int64_t tiles = 0, channels = 0;
  float* to = nullptr;  // of point p, tile i: to + p * point_step + i * tile_step
  std::int64_t point_step = 0, tile_step = 0;
};
using WinogradInputFn = void (*)(const WinogradInput&);

/// Transforms products of `tiles` neighbours of a tile row to outputs, vectors along channels: adds
/// the bias, clamps, stores `rows` x `pixels` of them.
struct WinogradOutput {
  const float* from = nullptr;  // of point p, tile i: from + p * point_step + i * tile_step
  std::int64_t point_step = 0, tile_step = 0;
  std::int64_t tiles = 0, channels = 0;
  const float* bias = nullptr;
  Clamp clamp;
  float* to = nullptr;  // of row i, pixel j: to + i * row_step + j * pixel_step
  std::int64_t row_step = 0, pixel_step = 0;
  std::int64_t rows = 0, pixels = 0;
};
using WinogradOutputFn = void (*)(const WinogradOutput&);

struct WinogradTransforms {
  WinogradInputFn input = nullptr;
  WinogradOutputFn output = nullptr;
};
WinogradTransforms winograd_transforms(int m);  // of the instruction set in force

/// Everything about a Winograd convolution but its pointers. Strides are in elements.
struct WinogradGeometry {
  int m = 4, t = 6;
  std::int64_t batch = 1, channels = 1, outputs = 1;
  ConvAxis h, w;
  Image x, y;
  std::int64_t tile_rows = 1, tile_columns = 1;
  std::int64_t strip = 1;        // tile columns of a strip; the last one may be narrower
  std::int64_t segment = 1;      // most tiles transformed together
  bool input_in_order = true;    // channels-last: the input transform reads x itself
  bool output_in_order = true;   // likewise, its transform writes y itself
  std::int64_t padded = 1;       // floats of a pixel's channels in V and in the ring
  std::int64_t input_step = 0;   // V: from one point to the next
  std::int64_t output_step = 0;  // M
  std::int64_t slot_floats = 0;  // ring of t rows of a strip's pixels, where !input_in_order
  std::int64_t buffer_row = 0;   // m rows of a block's outputs, where !output_in_order
  std::vector<ConvBlock> blocks;
  std::int64_t packed_floats = 0;
  bool ahead = false;  // images come from far: they are prefetched

  [[nodiscard]] std::int64_t points() const { return static_cast<std::int64_t>(t) * t; }
  [[nodiscard]] std::int64_t tiles() const { return batch * tile_rows * tile_columns; }
};

/// Wishes of a candidate; 0 leaves the choice to the model.
struct WinogradChoice {
  int m = 4;
  std::int64_t segment = 0;
};

WinogradGeometry winograd_geometry(const Plan& plan, const KernelPlan& kernel,
                                   const WinogradChoice& choice);

/// Transforms and packs weights [K, C, 3, 3], and biases (null: zeros), to packed_floats.
void winograd_pack(const WinogradGeometry& geometry, const float* weights, const float* bias,
                   float* packed);

}  // namespace braze::cpu
