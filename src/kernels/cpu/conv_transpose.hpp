// Transposed convolution.
//
//   y[k, o] = bias[k] + sum over c, t with o = i * stride - pad + t * dilation of w[c, k, t] * x[c,
//   i]
//
// For the outputs o = q * stride + p of one phase p (along each axis), the taps with a term are
// every (stride / gcd(stride, dilation))-th one, and i = q - pad' + t' * dilation / gcd: an
// ordinary convolution with stride 1 whose results are stored `stride` apart. It runs on the inner
// loops of direct convolution, vectors along output channels, or on those of depthwise convolution
// where each group has one input channel.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/conv_depthwise_pack.hpp"
#include "kernels/cpu/conv_direct.hpp"
#include "kernels/cpu/epilogue.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cpu/kernel.hpp"

namespace braze::cpu {

/// Outputs first + q * stride, q < count, of one axis: input q - pad + j * dilation times tap
/// taps[j].
struct TransposePhase {
  std::int64_t first = 0, count = 0;
  std::int64_t pad = 0, dilation = 1;
  std::vector<std::int64_t> taps;

  /// Outputs [begin, end) that have the same terms j in [low, low + terms).
  struct Segment {
    std::int64_t begin = 0, end = 0, low = 0, terms = 0;
  };
  std::vector<Segment> segments;

  /// The terms of output q that are on the image of `in` elements.
  [[nodiscard]] Segment terms(std::int64_t q, std::int64_t in) const;
};

struct TransposeAxis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1;
  std::vector<TransposePhase> phases;  // those that have outputs

  TransposeAxis() : TransposeAxis(1, 1, 1, 1, 1, 0) {}
  TransposeAxis(std::int64_t inputs, std::int64_t outputs, std::int64_t taps, std::int64_t step,
                std::int64_t dilation, std::int64_t pad);
};

class ConvTransposeKernel final : public Kernel {
 public:
  ConvTransposeKernel(const Plan& plan, const KernelPlan& kernel);
  [[nodiscard]] std::size_t workspace_bytes(std::size_t threads) const override;
  void run(const KernelArguments& arguments) const noexcept override;

 private:
  enum class Mode : std::uint8_t {
    kChannels,   // vectors along output channels, x channels-last
    kPixels,     // vectors along pixels, x in planes with zeros on both sides: few output channels
    kDepthwise,  // vectors along channels of both
  };

  /// Output rows [begin, end) of plane od of an image and a group.
  struct Part {
    std::int64_t n = 0, group = 0, od = 0, begin = 0, end = 0;
    const float* x = nullptr;   // channels-last, of the image and the group
    float* y = nullptr;         // row `begin`, channel 0 of the group
    float* to = nullptr;        // where they are computed, channels-last: y or a buffer
    std::int64_t to_pixel = 0;  // from pixel to pixel there; rows follow each other
    ConvTap* taps = nullptr;
  };

  void lay_out_input();
  void lay_out_blocks();
  void pack_dense(const float* w, const float* bias);
  void pack_depthwise(const float* w, const float* bias);
  void copy_input(const KernelArguments& arguments) const noexcept;
  void dense_row(const Part& part, std::int64_t oh, const ConvBlock& block) const noexcept;
  void pixel_row(const Part& part, std::int64_t oh) const noexcept;
  void depthwise(const Part& part) const noexcept;
  template <class F>
  void for_tap_rows(const Part& part, std::int64_t oh, const F& f) const noexcept;
  void finish(const KernelArguments& arguments, const Part& part) const noexcept;

  [[nodiscard]] std::int64_t taps() const { return d_.kernel * h_.kernel * w_.kernel; }
  [[nodiscard]] std::int64_t copied_floats() const;
  [[nodiscard]] std::int64_t buffer_floats() const;
  [[nodiscard]] std::int64_t scratch_floats() const;

  TileEpilogue epilogue_;
  Clamp clamp_;
  Operand x_operand_;
  Image x_, y_;
  Image from_;               // where loops read x: x itself, or its copy
  std::int64_t margin_ = 0;  // kPixels: zeros before column 0 of a row
  TransposeAxis d_, h_, w_;
  std::int64_t groups_ = 1, channels_ = 1, outputs_ = 1;  // the latter two of a group
  std::int64_t band_ = 1;                                 // output rows of one task
  Mode mode_ = Mode::kChannels;
  bool copies_x_ = false;   // from_ is a copy that is made first
  bool buffers_y_ = false;  // y is in model layout: rows are computed channels-last, then copied
  ConvCopyFn copy_ = nullptr;

  const ConvTiles* tiles_ = nullptr;        // kChannels
  const ConvTiles* pixel_tiles_ = nullptr;  // kPixels
  std::vector<ConvBlock> blocks_;
  std::int64_t group_floats_ = 0;
  std::vector<float> packed_;  // by group, block: [tap][channel][width], then [width] of bias

  DepthwiseVectors vectors_;
  std::vector<DepthwiseWeights> weights_;  // by phase of h, then of w
  std::vector<DepthwiseRowFn> loops_;      // by phase of w
};

}  // namespace braze::cpu
