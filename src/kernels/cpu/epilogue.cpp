#include "kernels/cpu/epilogue.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cpu/pointwise_rows.hpp"
#include "kernels/strides.hpp"

namespace braze::cpu {
namespace {

constexpr std::int64_t kRun = 2048;  // elements that all steps pass over while they are in L1

/// A tile as rows of adjacent elements.
struct Rows {
  RowShape shape;
  std::int64_t stride = 0;  // from row to row
  bool channels = true;     // a row holds channels of one pixel, else pixels of one channel
};

Rows rows_of(const Tile& tile) {
  const bool channels = tile.stride_channel == 1 && (tile.stride_pixel != 1 || tile.channels > 1);
  return channels ? Rows{{tile.pixels, tile.channels}, tile.stride_pixel, true}
                  : Rows{{tile.channels, tile.pixels}, tile.stride_channel, false};
}

}  // namespace

TileEpilogue::TileEpilogue(const Plan& plan, const KernelPlan& kernel,
                           const Group::Member& member) {
  for (const EpilogueStep& from : member.epilogue.steps) {
    Step step;
    step.is_unary = from.unary.has_value();
    if (step.is_unary) {
      step.unary = *from.unary;
      const std::optional<Clamp> clamp = as_clamp(step.unary);
      if (clamp.has_value() && !steps_.empty() && !steps_.back().is_unary) {
        steps_.back().clamp = compose(steps_.back().clamp, *clamp);
        continue;
      }
      step.unary_rows = unary_rows(step.unary.fn);
      ensure(step.unary_rows != nullptr, "an epilogue's steps make floats");
    } else {
      step.binary = from.binary;
      step.swapped = from.swapped;
      step.binary_tile = BinaryTile(from.binary, from.swapped);
      ensure(step.binary_tile.defined(), "an epilogue's steps make floats");
      const Operand operand = operand_of(plan, kernel.group, from.operand);
      const Value& value = plan.graph.value(from.operand);
      step.input = operand.input;
      if (operand.input < 0) {
        step.constant = load<float>(operand.constant);
      } else {
        ensure(value.dtype == DType::kFloat32, "an epilogue's run-time operand is fp32");
      }
      const ImageStrides strides =
          image_strides(plan, from.operand, plan.graph.value(member.result).shape);
      step.stride_n = strides.n;
      step.stride_channel = strides.channel;
      step.stride_pixel = strides.pixel;
    }
    steps_.push_back(std::move(step));
  }
}

Clamp TileEpilogue::take_leading_clamp() {
  Clamp clamp;
  auto step = steps_.begin();
  for (; step != steps_.end() && step->is_unary; ++step) {
    const std::optional<Clamp> next = as_clamp(step->unary);
    if (!next.has_value()) break;
    clamp = compose(clamp, *next);
  }
  steps_.erase(steps_.begin(), step);
  return clamp;
}

void TileEpilogue::apply(const KernelArguments& arguments, const Tile& tile) const noexcept {
  if (steps_.empty() || tile.pixels == 0 || tile.channels == 0) return;
  const Rows rows = rows_of(tile);
  RowShape run = rows.shape;
  if (steps_.size() > 1) {
    run.cols = std::min(run.cols, kRun);
    run.rows = std::min(run.rows, std::max<std::int64_t>(1, kRun / run.cols));
  }
  for (std::int64_t row = 0; row < rows.shape.rows; row += run.rows) {
    for (std::int64_t col = 0; col < rows.shape.cols; col += run.cols) {
      const RowShape part{std::min(run.rows, rows.shape.rows - row),
                          std::min(run.cols, rows.shape.cols - col)};
      float* const data = tile.data + row * rows.stride + col;
      const std::int64_t pixel = tile.pixel + (rows.channels ? row : col);
      const std::int64_t channel = tile.channel + (rows.channels ? col : row);
      for (const Step& step : steps_) {
        if (step.is_unary) {
          step.unary_rows(part, data, rows.stride, data, rows.stride,
                          static_cast<float>(step.unary.alpha),
                          static_cast<float>(step.unary.beta));
          continue;
        }
        const float* operand =
            step.input < 0
                ? step.constant.data()
                : static_cast<const float*>(arguments.inputs[static_cast<std::size_t>(step.input)]);
        operand +=
            tile.n * step.stride_n + pixel * step.stride_pixel + channel * step.stride_channel;
        step.binary_tile(part, data, rows.stride, operand,
                         rows.channels ? step.stride_pixel : step.stride_channel,
                         rows.channels ? step.stride_channel : step.stride_pixel, data, rows.stride,
                         step.clamp);
      }
    }
  }
}

}  // namespace braze::cpu
