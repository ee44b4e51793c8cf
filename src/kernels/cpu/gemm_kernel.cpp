// b in panels of a few vectors of columns, each as its depth rows in sequence; the multiply step is
// that of direct convolution with channels along vectors: a row of a is a pixel, the depth its
// channels.
#include <algorithm>
#include <array>

#include "kernels/cpu/conv_direct.hpp"
#include "kernels/cpu/gemm.hpp"
#include "kernels/cpu/strided_copy_tile.hpp"

namespace braze::cpu {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
/// Rows that are finished together: few enough to be in cache for the epilogue.
constexpr std::int64_t kCacheRows = 64;
/// Rows of a task where it packs the panel itself: enough to hide that.
constexpr std::int64_t kPackingRows = 256;
/// Below this, waking the workers takes longer than the product.
constexpr double kWorthWaking = 4e5;  // flops

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Writes `rows` x `columns` elements with strides (in elements) row-major, `width` apart. One of
/// the strides is 1, or there is one row or column.
void pack(CopyTileFn copy, const float* from, std::int64_t row_stride, std::int64_t column_stride,
          std::int64_t rows, std::int64_t columns, float* to, std::int64_t width) {
  CopyTile tile;
  tile.from = reinterpret_cast<const std::uint8_t*>(from);
  tile.to = reinterpret_cast<std::uint8_t*>(to);
  tile.rows = rows, tile.from_row = row_stride * kFloat, tile.to_row = width * kFloat;
  if (column_stride == 1) {
    tile.inner = StridedCopy::Inner::kRuns;
    tile.size = tile.last_size = columns * kFloat;
    tile.columns = 1;
  } else {
    tile.inner = row_stride == 1 ? StridedCopy::Inner::kTranspose : StridedCopy::Inner::kRuns;
    tile.size = tile.last_size = kFloat;
    tile.columns = columns, tile.from_column = column_stride * kFloat, tile.to_column = kFloat;
  }
  copy(tile);
}

class PanelKernel final : public Kernel {
 public:
  PanelKernel(const Plan& plan, const KernelPlan& kernel, GemmProblem problem)
      : problem_(std::move(problem)),
        finish_(plan, kernel, problem_),
        tiles_(conv_channel_tiles()),
        copy_(copy_tile_function()) {
    choose_vectors();
    panels_ = ceil_div(problem_.columns, width_);
    packs_a_ = problem_.a_depth != 1 && problem_.depth > 1;
    const bool packs_b = !packs_a_ && !problem_.b.constant.defined();
    chunks_ =
        std::max<std::int64_t>(ceil_div(problem_.rows, packs_b ? kPackingRows : kCacheRows), 1);
    panels_innermost_ = problem_.columns < problem_.rows;
    bias_ = finish_.take_bias(problem_);
    bias_.resize(static_cast<std::size_t>(panels_ * width_), 0.0F);
    clamp_ = finish_.take_clamp();
    if (problem_.b.constant.defined()) pack_constant();
  }

  [[nodiscard]] std::size_t workspace_bytes(std::size_t threads) const override {
    return threads * static_cast<std::size_t>(worker_floats() * kFloat);
  }

  void run(const KernelArguments& arguments) const noexcept override {
    pthreadpool_t pool = problem_.flops() < kWorthWaking ? nullptr : arguments.pool;
    // Rows of a transposed a are packed once for all panels.
    const std::int64_t per_product = packs_a_ ? chunks_ : chunks_ * panels_;
    parallel_for(pool, static_cast<std::size_t>(per_product * problem_.batch()),
                 [&](std::size_t index, std::size_t worker) {
                   const auto task = static_cast<std::int64_t>(index);
                   const std::int64_t part = task % per_product;
                   float* scratch = static_cast<float*>(arguments.workspace) +
                                    static_cast<std::int64_t>(worker) * worker_floats();
                   if (packs_a_)
                     return run_chunk(arguments, task / per_product, part, 0, panels_, scratch);
                   const std::int64_t panel = panels_innermost_ ? part % panels_ : part / chunks_;
                   const std::int64_t chunk = panels_innermost_ ? part / panels_ : part % chunks_;
                   run_chunk(arguments, task / per_product, chunk, panel, panel + 1, scratch);
                 });
  }

 private:
  using Vectors = std::size_t;

  /// Rows of each call: as equal as they can be, at most `most`.
  static std::int64_t block_rows(std::int64_t rows, std::int64_t most) {
    return ceil_div(rows, ceil_div(rows, most));
  }

  /// The panel width that takes the least time by count: a depth step of P rows is P * vectors
  /// multiply-adds, beside which P + vectors loads are nearly hidden.
  void choose_vectors() {
    const auto cost_of = [this](std::int64_t vectors) {
      constexpr double kLoad = 0.2, kStep = 0.5;  // of a multiply-add
      const std::int64_t rows = std::clamp<std::int64_t>(problem_.rows, 1, kCacheRows);
      const auto blocks =
          static_cast<double>(ceil_div(rows, tiles_.broadcasts(static_cast<int>(vectors))));
      const auto products = static_cast<double>(rows * vectors);
      return products +
             kLoad * (static_cast<double>(rows) + blocks * static_cast<double>(vectors)) +
             kStep * blocks;
    };
    const std::int64_t total = ceil_div(std::max<std::int64_t>(problem_.columns, 1), tiles_.lanes);
    double best = 0;
    for (std::int64_t vectors = 1; vectors <= kConvMaxVectors; ++vectors) {
      if (tiles_.broadcasts(static_cast<int>(vectors)) == 0) continue;
      const std::int64_t whole = total / vectors;
      const std::int64_t rest = total % vectors;
      const double cost =
          static_cast<double>(whole) * cost_of(vectors) + (rest > 0 ? cost_of(rest) : 0);
      if (width_ == 0 || cost < best) {
        best = cost;
        width_ = vectors * tiles_.lanes;
      }
    }
  }

  [[nodiscard]] std::int64_t columns_of(std::int64_t panel) const {
    return std::min(width_, problem_.columns - panel * width_);
  }
  /// Floats from one depth row of a panel to the next: whole vectors.
  [[nodiscard]] std::int64_t width_of(std::int64_t panel) const {
    return ceil_div(columns_of(panel), tiles_.lanes) * tiles_.lanes;
  }
  [[nodiscard]] std::int64_t panel_floats() const { return problem_.depth * width_; }
  [[nodiscard]] std::int64_t worker_floats() const {
    const std::int64_t a = packs_a_ ? kCacheRows * problem_.depth : 0;
    const std::int64_t b = packed_.empty() ? panel_floats() : 0;
    return ceil_div(a + b, 16) * 16;
  }

  void pack_panel(const float* b, std::int64_t panel, float* to) const {
    const std::int64_t width = width_of(panel), columns = columns_of(panel);
    pack(copy_, b + panel * width_ * problem_.b_column, problem_.b_depth, problem_.b_column,
         problem_.depth, columns, to, width);
    if (problem_.alpha == 1) return;
    for (std::int64_t i = 0; i < problem_.depth * width; ++i) to[i] *= problem_.alpha;
  }

  /// Products that share a b share its image.
  void pack_constant() {
    const auto* b = problem_.b.constant.as<float>();
    std::vector<std::int64_t> distinct = problem_.b_offsets;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    packed_.resize(static_cast<std::size_t>(panels_ * panel_floats()) * distinct.size() + kLine,
                   0.0F);
    packed_start_ =
        (64 - reinterpret_cast<std::uintptr_t>(packed_.data()) % 64) % 64 / sizeof(float);
    for (std::size_t i = 0; i < distinct.size(); ++i) {
      const std::int64_t image = static_cast<std::int64_t>(i) * panels_ * panel_floats();
      for (std::int64_t panel = 0; panel < panels_; ++panel) {
        pack_panel(b + distinct[i], panel,
                   packed_.data() + packed_start_ + image + panel * panel_floats());
      }
    }
    for (const std::int64_t offset : problem_.b_offsets) {
      const auto found = std::lower_bound(distinct.begin(), distinct.end(), offset);
      images_.push_back((found - distinct.begin()) * panels_ * panel_floats());
    }
    problem_.b.constant = Tensor();
  }

  void run_chunk(const KernelArguments& arguments, std::int64_t index, std::int64_t chunk,
                 std::int64_t first_panel, std::int64_t last_panel, float* scratch) const {
    const auto product = static_cast<std::size_t>(index);
    const std::int64_t per_chunk = ceil_div(problem_.rows, chunks_);
    const std::int64_t row = chunk * per_chunk;
    const std::int64_t rows = std::min(per_chunk, problem_.rows - row);
    if (rows <= 0) return;
    const float* a = static_cast<const float*>(problem_.a.data(arguments)) +
                     problem_.a_offsets[product] + row * problem_.a_row;
    std::int64_t a_row = problem_.a_row;
    if (packs_a_) {
      pack(copy_, a, problem_.a_row, problem_.a_depth, rows, problem_.depth, scratch,
           problem_.depth);
      a = scratch;
      a_row = problem_.depth;
      scratch += kCacheRows * problem_.depth;
    }
    float* y = static_cast<float*>(arguments.outputs[static_cast<std::size_t>(problem_.output)]) +
               (index * problem_.rows + row) * problem_.columns;
    for (std::int64_t panel = first_panel; panel < last_panel; ++panel) {
      const float* w = scratch;
      if (packed_.empty()) {
        pack_panel(
            static_cast<const float*>(problem_.b.data(arguments)) + problem_.b_offsets[product],
            panel, scratch);
      } else {
        w = packed_.data() + packed_start_ + images_[product] + panel * panel_floats();
      }
      const std::int64_t together = block_rows(rows, kCacheRows);
      for (std::int64_t r = 0; r < rows; r += together) {
        const std::int64_t count = std::min(together, rows - r);
        float* out = y + r * problem_.columns + panel * width_;
        multiply(a + r * a_row, a_row, count, w, panel, out);
        finish_.apply(arguments, problem_, index, row + r, count, panel * width_, columns_of(panel),
                      out);
      }
    }
  }

  void multiply(const float* a, std::int64_t a_row, std::int64_t rows, const float* w,
                std::int64_t panel, float* out) const {
    const std::int64_t vectors = width_of(panel) / tiles_.lanes;
    const std::array<ConvTap, 2> taps{{{a, 0}, {}}};
    ConvTile tile;
    tile.taps = taps.data();
    tile.run = problem_.depth;
    tile.x_step = a_row;
    tile.w = w;
    tile.bias = bias_.data() + panel * width_;
    tile.out_step = problem_.columns;
    tile.edge = columns_of(panel) - (vectors - 1) * tiles_.lanes;
    tile.clamp = clamp_;
    const auto& by_rows = tiles_.whole[static_cast<Vectors>(vectors)];
    const std::int64_t block = block_rows(rows, tiles_.broadcasts(static_cast<int>(vectors)));
    for (std::int64_t r = 0; r < rows; r += block) {
      tile.x_offset = r * a_row;
      tile.out = out + r * problem_.columns;
      by_rows[static_cast<std::size_t>(std::min(block, rows - r))](tile);
    }
  }

  static constexpr std::size_t kLine = 16;  // floats
  GemmProblem problem_;
  GemmFinish finish_;
  const ConvTiles& tiles_;
  CopyTileFn copy_;
  std::int64_t width_ = 0;  // columns of a panel
  std::int64_t panels_ = 0, chunks_ = 0;
  bool panels_innermost_ = false, packs_a_ = false;
  std::vector<float> bias_;
  Clamp clamp_;
  std::vector<float>
      packed_;  // panels of each distinct b, from packed_start_ on; empty if b comes at run time
  std::size_t packed_start_ = 0;
  std::vector<std::int64_t> images_;  // by product: where its b starts
};

}  // namespace

std::unique_ptr<Kernel> gemm_panels(const Plan& plan, const KernelPlan& kernel,
                                    GemmProblem problem) {
  return std::make_unique<PanelKernel>(plan, kernel, std::move(problem));
}

}  // namespace braze::cpu
