#include "kernels/cuda/product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "base/error.hpp"
#include "graph/window.hpp"
#include "kernels/cuda/pack.hpp"

namespace braze::cuda {
namespace {

// Warps hold at most 64 x 32 sums, which leaves room for two blocks of 128 threads and more.
constexpr std::array kMmaTiles = {
    TileShape{128, 128, 2, 4, 64, 4, 0.55, 0.75}, TileShape{128, 64, 4, 2, 64, 4, 0.42, 0.68},
    TileShape{128, 32, 4, 1, 64, 4, 0.25, 0.5},   TileShape{64, 64, 2, 2, 128, 3, 0.32, 0.6},
    TileShape{64, 32, 2, 2, 128, 3, 0.2, 0.45},   TileShape{32, 64, 1, 4, 128, 3, 0.2, 0.45},
};
constexpr std::array kWmmaTiles = {
    TileShape{128, 64, 4, 2, 64, 2, 0.25, 0.5},
    TileShape{64, 64, 2, 2, 64, 2, 0.15, 0.4},
    TileShape{64, 32, 2, 2, 64, 2, 0.1, 0.3},
    TileShape{32, 64, 1, 4, 64, 2, 0.1, 0.3},
};
// Two threads share each 8 x 8 or 8 x 4 sums.
constexpr std::array kFmaTiles = {
    TileShape{128, 64, 16, 8, 128, 3, 0.7, 0.8, 2}, TileShape{64, 64, 8, 8, 128, 3, 0.45, 0.78, 2},
    TileShape{128, 32, 16, 8, 64, 3, 0.5, 0.65, 2}, TileShape{64, 32, 8, 8, 64, 3, 0.35, 0.62, 2},
    TileShape{32, 64, 8, 8, 64, 3, 0.35, 0.62, 2},
};

std::span<const TileShape> tiles_of(Multiplier multiplier) {
  if (multiplier == Multiplier::kMma) return kMmaTiles;
  if (multiplier == Multiplier::kWmma) return kWmmaTiles;
  return kFmaTiles;
}

int threads_of(const TileShape& tile, Multiplier multiplier) {
  return tile.down * tile.across * (multiplier == Multiplier::kFma ? tile.parts : 32);
}

/// Elements of depth in a stage.
int depth_of(const TileShape& tile, const Arithmetic& arithmetic) {
  return tile.row_bytes / arithmetic.element_bytes();
}

std::int64_t tiles_in(const ProductSize& size, const TileShape& tile) {
  return size.products * ceil_div(size.rows, tile.rows) * ceil_div(size.columns, tile.columns);
}

/// T with which the multipliers are instantiated.
std::string element_type(const Arithmetic& arithmetic) {
  return arithmetic.tf32 ? "tf32" : device_type(arithmetic.dtype);
}

std::string multiplier_text(const ProductJob& job) {
  const TileShape& t = job.tile;
  switch (job.arithmetic.multiplier) {
    case Multiplier::kMma:
      return fmt::format(
          "MmaTile<{}, {}, {}, {}, {}, {}, {}>", element_type(job.arithmetic), t.rows, t.columns,
          t.down, t.across, t.row_bytes,
          job.arithmetic.tf32 && !job.a.constant && std::string_view(job.a.load) == "kAsync");
    case Multiplier::kWmma:
      return fmt::format("WmmaTile<{}, {}, {}, {}, {}, {}>", element_type(job.arithmetic), t.rows,
                         t.columns, t.down, t.across, t.row_bytes);
    case Multiplier::kFma:
      return fmt::format("FmaTile<{}, {}, {}, {}, {}, {}>", t.rows, t.columns, t.down, t.across,
                         t.parts, t.row_bytes);
  }
  return {};
}

const char* header_of(Multiplier multiplier) {
  if (multiplier == Multiplier::kMma) return "product_sm80.cuh";
  return multiplier == Multiplier::kWmma ? "product_portable.cuh" : "product_simt.cuh";
}

}  // namespace

Arithmetic arithmetic_of(Multiplier multiplier, DType compute, const Device& device) {
  Arithmetic arithmetic;
  arithmetic.multiplier = multiplier;
  arithmetic.async = device.sm >= 80;
  arithmetic.dtype = multiplier == Multiplier::kFma ? DType::kFloat32 : compute;
  arithmetic.tf32 = multiplier == Multiplier::kMma && compute == DType::kFloat32;
  arithmetic.peak = arithmetic.dtype != DType::kFloat32 ? device.flops_fp16
                    : arithmetic.tf32                   ? device.flops_tf32
                                                        : device.flops_fp32;
  return arithmetic;
}

Arithmetic arithmetic_of(DType compute, const Device& device) {
  Multiplier multiplier = Multiplier::kFma;
  if (device.sm >= 80 && (compute != DType::kFloat32 || device.tf32)) {
    multiplier = Multiplier::kMma;
  } else if (compute == DType::kFloat16) {
    multiplier = Multiplier::kWmma;
  }
  return arithmetic_of(multiplier, compute, device);
}

std::vector<Candidate> product_candidates(const ProductSize& size, const Arithmetic& arithmetic,
                                          const Device& device) {
  std::vector<Candidate> list;
  const auto tiles = tiles_of(arithmetic.multiplier);
  for (const TileShape& tile : tiles) {
    // A tile of which half is empty in both directions has a smaller one beside it.
    const bool smallest = &tile == &tiles.back() || &tile == &tiles[tiles.size() - 2];
    if (!smallest && (size.columns * 2 <= tile.columns || size.rows * 2 <= tile.rows)) continue;
    const std::int64_t blocks = ceil_div(size.depth, depth_of(tile, arithmetic));
    for (const std::int64_t split : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
      const bool fills = tiles_in(size, tile) * split > 2 * device.units;
      if (split > 1 && (blocks < 2 * split || fills)) break;
      list.push_back({{{"rows", tile.rows}, {"columns", tile.columns}, {"split", split}}});
    }
  }
  return list;
}

TileShape product_tile(const Arithmetic& arithmetic, const Candidate& candidate) {
  const auto tiles = tiles_of(arithmetic.multiplier);
  for (const TileShape& tile : tiles) {
    if (tile.rows == candidate.get("rows") && tile.columns == candidate.get("columns")) return tile;
  }
  return tiles.back();
}

double product_efficiency(const ProductSize& size, const Arithmetic& arithmetic,
                          const Candidate& candidate, const Device& device) {
  // us = steps * time of a step, in the fullest SM, + start and end of a block + sums of splits
  constexpr double kBlockUs = 1.2, kSplitUs = 0.8;
  const TileShape tile = product_tile(arithmetic, candidate);
  const auto split = static_cast<double>(candidate.get("split", 1));
  const auto blocks = static_cast<double>(tiles_in(size, tile)) * split;
  const double deep = depth_of(tile, arithmetic);
  const double steps = std::ceil(std::ceil(static_cast<double>(size.depth) / deep) / split);
  const double waves = std::ceil(blocks / device.units);
  const double rate = std::min(tile.full, tile.alone * waves) * arithmetic.peak / device.units;
  const double sums = static_cast<double>(tile.rows) * tile.columns;
  double us = waves * steps * 2 * sums * deep / rate * 1e6 + kBlockUs;
  if (split > 1) us += kSplitUs + 8 * blocks * sums / device.cache_bandwidth * 1e6;
  const double flops = 2.0 * static_cast<double>(size.products) * static_cast<double>(size.rows) *
                       static_cast<double>(size.columns) * static_cast<double>(size.depth);
  return std::clamp(flops / arithmetic.peak * 1e6 / us, 1e-6, 1.0);
}

double product_units(const ProductSize& size, const Arithmetic& arithmetic,
                     const Candidate& candidate) {
  return static_cast<double>(tiles_in(size, product_tile(arithmetic, candidate)) *
                             candidate.get("split", 1));
}

ProductOperand packed_operand(
    Kernel& kernel, const Arithmetic& arithmetic, std::int64_t products, std::int64_t rows,
    std::int64_t depth, int tile_rows, int row_bytes,
    const std::function<float(std::int64_t, std::int64_t, std::int64_t)>& element) {
  const auto size = static_cast<std::size_t>(arithmetic.element_bytes());
  const std::int64_t block = row_bytes / arithmetic.element_bytes();
  const std::int64_t padded_rows = ceil_div(rows, tile_rows) * tile_rows;
  const std::int64_t padded_depth = ceil_div(depth, block) * block;
  std::vector<std::byte> bytes(static_cast<std::size_t>(products * padded_rows * padded_depth) *
                               size);
  for (std::int64_t g = 0; g < products; ++g) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::byte* to =
          bytes.data() + static_cast<std::size_t>((g * padded_rows + r) * padded_depth) * size;
      for (std::int64_t k = 0; k < depth; ++k, to += size)
        write_element(to, element(g, r, k), arithmetic.dtype, arithmetic.tf32);
    }
  }
  ProductOperand operand;
  operand.data = add_constant(kernel, std::move(bytes));
  operand.rows.rows = static_cast<int>(padded_rows);
  operand.rows.depth = static_cast<int>(padded_depth);
  operand.rows.stride_product = padded_rows * padded_depth;
  operand.rows.stride_axis[2] = padded_depth;
  operand.rows.stride_depth = 1;
  operand.stored = element_type(arithmetic);
  operand.load = arithmetic.async ? "kAsync" : "kVectors";
  operand.constant = true;
  return operand;
}

const char* load_of(const Arithmetic& arithmetic, DType stored, bool chunks, bool rounds) {
  if (!chunks) return "kElements";
  const bool as_is = stored == arithmetic.dtype && (!arithmetic.tf32 || rounds);
  return as_is && arithmetic.async ? "kAsync" : "kVectors";
}

void emit_product(Kernel& kernel, std::string_view family, const Plan& plan, ValueId result,
                  ProductJob job, const EpilogueEmitter& epilogue) {
  const TileShape& tile = job.tile;
  const ProductSize& size = job.size;
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  const std::int64_t tiles = tiles_in(size, tile);
  ensure(size.rows <= kMost && tiles * job.split <= kMost, "a product's tiles can be counted");

  device::ProductParameters p{};
  p.a = job.a.rows;
  p.b = job.b.rows;
  // What tiles of a cover beyond its rows is not stored, packed or not.
  p.a.rows = static_cast<int>(size.rows);
  p.column_tiles = static_cast<int>(ceil_div(size.columns, tile.columns));
  p.row_tiles = static_cast<int>(ceil_div(size.rows, tile.rows));
  p.columns = static_cast<int>(size.columns);
  p.depth_blocks = static_cast<int>(ceil_div(size.depth, depth_of(tile, job.arithmetic)));
  p.split_blocks = std::max(static_cast<int>(ceil_div(p.depth_blocks, job.split)), 1);
  p.splits = std::max(static_cast<int>(ceil_div(p.depth_blocks, p.split_blocks)), 1);
  p.step_n = job.step_n;
  p.step_channel = job.step_channel;
  p.channels_inside = job.channels_inside ? 1 : 0;
  p.alpha = job.alpha;
  p.y = output_parameters(plan, result);
  p.e = epilogue.parameters();

  constexpr int kEntryBytes = sizeof(device::DepthEntry), kMostTableBytes = 16384;
  const int table_bytes = p.split_blocks * job.a.table_entries * kEntryBytes;
  p.table_entries = table_bytes <= kMostTableBytes ? job.a.table_entries : 0;
  const int pitch = tile.row_bytes + (job.arithmetic.multiplier == Multiplier::kWmma ? 16 : 0);
  const int ring =
      tile.stages * (tile.rows + tile.columns) * pitch + (p.table_entries != 0 ? table_bytes : 0);
  const int sums = tile.rows * (tile.columns + 8) * static_cast<int>(sizeof(float));
  const bool image = job.image_bytes != 0;
  const int weights = tile.columns * (p.b.depth * job.arithmetic.element_bytes() + 16);
  kernel.shared_bytes = static_cast<std::uint32_t>(
      image ? weights + std::max(static_cast<int>(job.image_bytes), sums) : std::max(ring, sums));

  Parameters parameters(p);
  parameters.point(p.a.data, job.a.data);
  parameters.point(p.a.table, job.a.table);
  parameters.point(p.a.offsets, job.a.offsets);
  parameters.point(p.b.data, job.b.data);
  parameters.point(p.b.offsets, job.b.offsets);
  if (p.splits > 1) {
    kernel.workspace_bytes = static_cast<std::size_t>(tiles * p.splits) *
                             static_cast<std::size_t>(tile.rows * tile.columns) * sizeof(float);
    parameters.point(p.partial, {Address::Of::kWorkspace, 0, 0});
    parameters.point(p.counters,
                     add_constant(kernel, std::vector<std::byte>(static_cast<std::size_t>(tiles) *
                                                                 sizeof(unsigned))));
  }
  parameters.point(p.y.data, {Address::Of::kOutput, 0, 0});
  epilogue.point(parameters, p.e);
  parameters.move_to(kernel);

  const char* finish = job.flat ? "kFlat" : job.store.along_pixels ? "kPixels" : "kChannels";
  if (image) {
    const std::string call =
        fmt::format("product_of_image<{}, {}, {}, {}, {}, Store::{}, {}, Finish::{}, Epilogue>",
                    multiplier_text(job), job.a.stored, job.filter_h, job.filter_w,
                    device_type(plan.graph.value(result).dtype),
                    job.store.at_once ? "kVector" : "kEach", job.store.vector, finish);
    emit(kernel, family, {"product_image.cuh"}, epilogue.source(), "ProductParameters", call,
         threads_of(tile, job.arithmetic.multiplier));
    // Blocks stay for tile after tile of the same columns.
    const std::int64_t resident = std::max<std::int64_t>(3 * plan.device.units / p.column_tiles, 1);
    kernel.grid.x =
        static_cast<std::uint32_t>(std::min<std::int64_t>(p.row_tiles, resident) * p.column_tiles);
    kernel.overlaps = true;
    return;
  }
  const std::string call = fmt::format(
      "product<{}, {}, Rows::{}, Load::{}, {}, Load::{}, {}, {}, {}, Store::{}, {}, Finish::{}, "
      "Epilogue>",
      multiplier_text(job), job.a.stored, job.a.kind, job.a.load, job.b.stored, job.b.load,
      tile.stages, job.b.constant, device_type(plan.graph.value(result).dtype),
      job.store.at_once ? "kVector" : "kEach", job.store.vector, finish);
  emit(kernel, family, {header_of(job.arithmetic.multiplier)}, epilogue.source(),
       "ProductParameters", call, threads_of(tile, job.arithmetic.multiplier));
  kernel.grid.x = static_cast<std::uint32_t>(tiles * p.splits);
  kernel.overlaps = true;
}

}  // namespace braze::cuda
