// Products of matrices, tile by tile: what convolutions (implicit GEMM) and matrix products share
// on the host. See device/product.cuh.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/conv_problem.hpp"
#include "kernels/cuda/device/product_parameters.h"
#include "kernels/cuda/emit.hpp"

namespace braze::cuda {

/// What multiplies: mma.sync (sm_80), wmma (sm_70), or fused multiply-adds in fp32.
enum class Multiplier : std::uint8_t { kMma, kWmma, kFma };

/// How numbers of a type are multiplied on a device.
struct Arithmetic {
  Multiplier multiplier = Multiplier::kFma;
  DType dtype = DType::kFloat32;  // in shared memory
  bool tf32 = false;              // fp32 that is rounded to tf32
  bool async = false;             // there is cp.async
  double peak = 0;                // operations/s
  [[nodiscard]] int element_bytes() const { return static_cast<int>(size_of(dtype)); }
  [[nodiscard]] int chunk() const { return 16 / element_bytes(); }  // elements
};
/// The fastest way there is.
Arithmetic arithmetic_of(DType compute, const Device& device);
/// With this multiplier, which must take the type.
Arithmetic arithmetic_of(Multiplier multiplier, DType compute, const Device& device);

/// A tile of the result, by a block of threads.
struct TileShape {
  int rows, columns;
  int down, across;  // warps, or for kFma threads, along rows and columns
  int row_bytes;     // depth of a stage
  int stages;
  // Of an SM's peak rate: what a block reaches alone, what as many as fit reach.
  double alone, full;
  int parts = 1;  // kFma: threads that share a thread's sums, each over a part of the depth
};

/// y [rows, columns] = a [rows, depth] b^T [columns, depth], `products` times.
struct ProductSize {
  std::int64_t products = 1, rows = 1, columns = 1, depth = 1;
};

/// Tiles and splits of the depth worth trying: rows, columns, split.
std::vector<Candidate> product_candidates(const ProductSize& size, const Arithmetic& arithmetic,
                                          const Device& device);
/// The fraction of the peak rate that a candidate reaches, from waves, latency and the rest.
double product_efficiency(const ProductSize& size, const Arithmetic& arithmetic,
                          const Candidate& candidate, const Device& device);
/// Multiprocessors that a candidate's blocks would fill.
double product_units(const ProductSize& size, const Arithmetic& arithmetic,
                     const Candidate& candidate);
/// The tile that a candidate means.
TileShape product_tile(const Arithmetic& arithmetic, const Candidate& candidate);

/// How an operand gets to shared memory; see device/product_rows.cuh.
struct ProductOperand {
  device::ProductRows rows{};
  Address data, table, offsets;
  std::string stored;  // type in memory
  const char* kind = "kMatrix";
  const char* load = "kElements";
  bool constant = false;
  int table_entries = 0;  // of a depth block
};

/// A constant operand: element(product, row, depth) in the type that is multiplied, padded with
/// zeros to whole tiles of `tile_rows` and whole depth blocks.
ProductOperand packed_operand(
    Kernel& kernel, const Arithmetic& arithmetic, std::int64_t products, std::int64_t rows,
    std::int64_t depth, int tile_rows, int row_bytes,
    const std::function<float(std::int64_t, std::int64_t, std::int64_t)>& element);

/// "kAsync", "kVectors" or "kElements", for elements of `stored` of which whole chunks may be
/// read at once or not. `rounds`: what arrives in the background is rounded to tf32 later on.
const char* load_of(const Arithmetic& arithmetic, DType stored, bool chunks, bool rounds);

struct ProductJob {
  ProductSize size;
  Arithmetic arithmetic;
  TileShape tile{};
  int split = 1;
  ProductOperand a, b;
  StoreShape store;
  bool flat = false;  // Finish::kFlat
  bool channels_inside = false;
  int step_n = 0, step_channel = 0;
  float alpha = 1;
  // Of a convolution whose input lies in shared memory as an image (device/product_image.cuh): the
  // bytes of a tile's rows, or 0; the filter.
  std::int64_t image_bytes = 0, filter_h = 0, filter_w = 0;
};
/// Writes the kernel: its source, parameters and launch.
void emit_product(Kernel& kernel, std::string_view family, const Plan& plan, ValueId result,
                  ProductJob job, const EpilogueEmitter& epilogue);

}  // namespace braze::cuda
