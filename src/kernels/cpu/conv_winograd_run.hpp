// The Winograd kernel: one class, built by conv_winograd.cpp, run by conv_winograd_run.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ahead.hpp"
#include "kernels/cpu/conv_winograd.hpp"
#include "kernels/cpu/epilogue.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {

class ConvWinogradKernel final : public Kernel {
 public:
  ConvWinogradKernel(const Plan& plan, const KernelPlan& kernel, const WinogradChoice& choice);

  [[nodiscard]] std::size_t workspace_bytes(std::size_t threads) const override;
  void run(const KernelArguments& arguments) const noexcept override;

 private:
  struct Run;      // pointers of one run
  struct Scratch;  // of one worker

  /// Tiles [tile_begin, tile_end), all output channels of blocks [block_begin, block_end).
  struct Part {
    std::int64_t tile_begin = 0, tile_end = 0;
    std::size_t block_begin = 0, block_end = 0;
  };
  /// How often a run's work is cut along tiles, at multiples of `unit`, and along blocks.
  struct Cut {
    std::int64_t tiles = 1, blocks = 1;
    std::int64_t unit = 1;
  };
  /// Tiles side by side in a tile row of a strip.
  struct Row {
    std::int64_t n = 0, row = 0, column = 0, tiles = 0;  // row, column: of the first one
    std::int64_t strip = 0;                              // its first tile column
  };

  [[nodiscard]] Cut cut(std::size_t workers) const;
  [[nodiscard]] Row row_at(std::int64_t tile, std::int64_t end) const;
  [[nodiscard]] std::int64_t segment_end(std::int64_t begin, std::int64_t end) const;
  [[nodiscard]] std::size_t scratch_floats() const;
  [[nodiscard]] Scratch scratch_of(void* workspace, std::size_t worker) const;

  void run_part(const Run& run, const Part& part, Scratch& scratch) const noexcept;
  void transform_input(const Run& run, const Row& row, float* v, Scratch& scratch) const noexcept;
  void fill_ring(const float* x, const Row& row, Scratch& scratch) const noexcept;
  [[nodiscard]] Ahead input_ahead(const Run& run, const Row& row) const noexcept;
  [[nodiscard]] Ahead output_ahead(const Run& run, const Row& row,
                                   const ConvBlock& block) const noexcept;
  void multiply(const ConvBlock& block, std::int64_t tiles, const Scratch& scratch, Ahead& input,
                Ahead& output) const noexcept;
  void transform_output(const Run& run, const Row& row, const ConvBlock& block, const float* m,
                        const Scratch& scratch) const noexcept;
  void run_epilogue(const Run& run, const Row& row, const ConvBlock& block) const noexcept;

  WinogradGeometry g_;
  WinogradTransforms transforms_;
  const ConvTiles* tiles_ = nullptr;
  ConvCopyFn copy_ = nullptr;
  Operand x_;
  int output_ = 0;
  Tensor packed_;
  Clamp clamp_;
  TileEpilogue epilogue_;
};

}  // namespace braze::cpu
