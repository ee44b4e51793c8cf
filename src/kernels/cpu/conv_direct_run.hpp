// The kernel of the direct convolution family.
#pragma once

#include "kernels/cpu/ahead.hpp"
#include "kernels/cpu/conv_direct.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {

class ConvDirectKernel final : public RowKernel {
 public:
  ConvDirectKernel(const Plan& plan, const KernelPlan& kernel, const ConvChoice& choice);
  [[nodiscard]] std::size_t workspace_bytes(std::size_t threads) const override;
  void run(const KernelArguments& arguments) const noexcept override;
  [[nodiscard]] std::size_t row_workspace_bytes() const override { return scratch_bytes(); }
  /// Of weights and biases that are constants.
  void run_rows(const KernelArguments& arguments, std::int64_t n, std::int64_t begin,
                std::int64_t end) const noexcept override;

 private:
  /// A part of the output: one image, depth and group; rows, columns and blocks [begin, end).
  struct Part {
    std::int64_t n = 0, d = 0, group = 0;
    std::int64_t row_begin = 0, row_end = 0;
    std::int64_t column = 0, columns = 0;
    std::size_t block_begin = 0, block_end = 0;
  };
  /// How many parts there are along each axis.
  struct Cut {
    std::int64_t segments = 1, rows = 1, blocks = 1;
    std::int64_t tasks = 1;
  };
  struct Run;  // pointers of one run
  struct Scratch {
    float* ring = nullptr;
    float* buffer = nullptr;
    ConvTap* taps = nullptr;
  };

  [[nodiscard]] Cut cut(std::size_t workers) const;
  [[nodiscard]] Part part(const Cut& cut, std::int64_t task) const;
  [[nodiscard]] std::size_t scratch_bytes() const;
  [[nodiscard]] Scratch scratch_at(std::byte* workspace) const;
  void run_part(const Run& run, const Part& part, const Scratch& scratch) const noexcept;
  void fill_row(const float* row, std::int64_t column, std::int64_t count,
                float* slot) const noexcept;
  std::int64_t find_taps(const float* x, const Part& part, std::int64_t row, const float* ring,
                         ConvTap* taps) const noexcept;
  void run_row(const Run& run, const Part& part, std::int64_t row, const ConvBlock& block,
               const ConvTap* taps, float* buffer, Ahead* input) const noexcept;
  void run_epilogue(const Run& run, const Part& part, std::int64_t row, std::size_t block_begin,
                    std::size_t block_end) const noexcept;
  [[nodiscard]] Ahead input_ahead(const Run& run, const Part& part,
                                  std::int64_t row) const noexcept;
  [[nodiscard]] std::int64_t tiles_in_row(std::int64_t columns,
                                          const ConvBlock& block) const noexcept;
  void run_tiles(ConvTile tile, std::int64_t columns, const ConvBlock& block,
                 Ahead* input) const noexcept;

  ConvGeometry g_;
  std::int64_t row_pixels_ = 1;  // of the result; g_ may have its rows in one line
  const ConvTiles* tiles_ = nullptr;
  ConvCopyFn copy_ = nullptr;
  Operand x_, weights_, bias_;
  int output_ = 0;
  Tensor packed_;  // undefined where weights or bias arrive at run time; then the workspace begins
                   // with their image
  Clamp clamp_;
  TileEpilogue epilogue_;
};

}  // namespace braze::cpu
