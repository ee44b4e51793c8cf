// What conv_sm90 is asked for, and what it takes.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>

#include "graph/window.hpp"
#include "kernels/cuda/conv_problem.hpp"
#include "kernels/cuda/conv_sm90.hpp"
#include "kernels/cuda/emit.hpp"
#include "plan/stages.hpp"
#include "target/image_conv.hpp"

namespace braze::cuda {
namespace {

/// What the TMA takes (CUDA driver API, cuTensorMapEncodeIm2col): steps up to 8, corners of the
/// box of pixels in 8 bits with sign, offsets of taps in 8 bits.
Support supports_window(const ConvSm90Problem& problem) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (problem.stride[axis] > 8)
      return Support::no("stride", fmt::format("stride {}; at most 8", problem.stride[axis]));
    const std::int64_t last =
        (problem.out[axis] - 1) * problem.stride[axis] - problem.pad[axis] - (problem.in[axis] - 1);
    const std::int64_t reach = (problem.kernel[axis] - 1) * problem.dilation[axis];
    if (problem.pad[axis] > 128 || last < -128 || last > 127 || reach > 255)
      return Support::no("window", fmt::format("the filter reaches {} pixels with {} of padding; "
                                               "at most 127 and 128",
                                               reach, problem.pad[axis]));
  }
  return Support::yes();
}

/// A transposed convolution of one group, each phase of which has a tap.
Support supports_transposed(const Graph& graph, const Node& node) {
  const auto& op = *node.as<ConvTranspose>();
  if (op.group != 1) return Support::no("groups", fmt::format("{} groups", op.group));
  for (std::size_t i = 0; i < op.window.kernel.size(); ++i) {
    const std::int64_t kernel = op.window.kernel[i], stride = op.window.strides[i];
    if (kernel < stride)
      return Support::no("phases", fmt::format("kernel {} with stride {}; transposed convolutions "
                                               "have kernels that are as large",
                                               kernel, stride));
    if (stride > 1 && op.window.dilations[i] > 1)
      return Support::no("dilation", "a transposed convolution with strides and dilations");
    constexpr std::int64_t kMost = 1 << 30;
    if (graph.value(node.input(0)).shape[i + 2] > kMost / stride ||
        graph.value(node.output()).shape[i + 2] > kMost)
      return Support::no("extent", "an axis of the result is longer than 2^30");
  }
  const Shape& y = graph.value(node.output()).shape;
  if (element_count({y.begin() + 2, y.end()}) > std::numeric_limits<std::int32_t>::max())
    return Support::no("extent", "an image of the result has more than 2^31 pixels");
  return Support::yes();
}

/// Downwards, also of negative numbers.
std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

void set_transposed(const Graph& graph, const Node& node, ConvSm90Problem& problem) {
  const auto& op = *node.as<ConvTranspose>();
  const Shape& x = graph.value(node.input(0)).shape;
  const Shape& y = graph.value(node.output()).shape;
  ConvSm90Transposed& t = problem.transposed.emplace();
  problem.batch = x[0];
  problem.channels = x[1];
  const std::size_t axes = x.size() - 2;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t at = 2 - axes + i;
    const std::int64_t stride = op.window.strides[i], pad = op.window.pads_begin[i];
    const std::int64_t first = floor_div(pad, stride);  // q
    t.kernel[at] = op.window.kernel[i];
    t.stride[at] = stride;
    t.whole[at] = (t.kernel[at] - 1) % stride + 1;
    t.out[at] = y[i + 2];
    t.corner[at] = first * stride - pad;
    problem.in[at] = x[i + 2];
    problem.out[at] = floor_div(y[i + 2] - 1 + pad, stride) - first + 1;
    problem.kernel[at] = ceil_div(t.kernel[at], stride);
    problem.dilation[at] = op.window.dilations[i];
    problem.pad[at] = (problem.kernel[at] - 1) * problem.dilation[at] - first;
  }
  t.outputs = y[1];
  t.columns = ceil_div(t.outputs, 8) * 8;
  problem.outputs = t.stride[0] * t.stride[1] * t.columns;
  problem.output_stride = t.kernel[0] * t.kernel[1];
  problem.channel_stride = t.outputs * problem.output_stride;
}

}  // namespace

Support supports_conv_sm90(const Graph& graph, const Node& node, const Device& device) {
  if (device.sm != 90) return Support::no("device", "needs sm_90");
  const bool conv = node.kind() == OpKind::kConv,
             transposed = node.kind() == OpKind::kConvTranspose;
  if (!conv && !transposed && node.kind() != OpKind::kMatMul && node.kind() != OpKind::kGemm)
    return Support::no("operator", "runs Conv, ConvTranspose, MatMul and Gemm only");
  const Value& x = graph.value(node.input(0));
  const Value& w = graph.value(node.input(1));
  if (x.dtype != DType::kFloat16 && x.dtype != DType::kBFloat16 &&
      !(x.dtype == DType::kFloat32 && device.tf32)) {
    return Support::no("dtype", fmt::format("{} is {}; takes float16, bfloat16, and float where "
                                            "products may be rounded to tf32",
                                            x.name, to_string(x.dtype)));
  }
  if (!w.is_constant() || w.dtype != x.dtype)
    return Support::no("weights",
                       fmt::format("{} is not a constant {}", w.name, to_string(x.dtype)));
  if (element_count(x.shape) == 0 || element_count(w.shape) == 0 ||
      element_count(graph.value(node.output()).shape) == 0)
    return Support::no("empty", "an operand or the result has no elements");
  if ((conv || transposed) && x.shape.size() > 4)
    return Support::no("rank", fmt::format("input {}; 1 or 2 spatial axes", to_string(x.shape)));
  if (transposed) {
    if (const Support phases = supports_transposed(graph, node); !phases.ok) return phases;
  } else if (conv) {
    if (const Support general = supports_conv(graph, node); !general.ok) return general;
    if (node.as<Conv>()->group != 1)
      return Support::no("groups", fmt::format("{} groups", node.as<Conv>()->group));
  } else if (Support product; !image_conv(graph, node, &product)) {
    return product;
  }
  const ConvSm90Problem problem = conv_sm90_problem(graph, node);
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  if (problem.channels * size % 16 != 0)
    return Support::no("channels", fmt::format("{} channels of {}; takes multiples of 16 bytes",
                                               problem.channels, to_string(x.dtype)));
  if (problem.pixels() > std::numeric_limits<std::int32_t>::max() - 1024 ||
      problem.outputs > 1 << 24 || problem.steps() > 1 << 20)
    return Support::no("extent", "too large for 32-bit coordinates");
  return problem.pointwise() ? Support::yes() : supports_window(problem);
}

int staged_bytes(const Graph& graph, const Group::Member& member, bool converts) {
  std::size_t bytes = 0;
  for (const EpilogueStep& step : member.epilogue.steps) {
    if (step.cast || step.unary) continue;
    const Value& operand = graph.value(step.operand);
    // What a kernel converts while it loads may be fp32.
    if (!operand.is_constant() && operand.shape == graph.value(member.result).shape)
      bytes = std::max(bytes, converts ? sizeof(float) : size_of(operand.dtype));
  }
  return static_cast<int>(bytes);
}

std::optional<std::int64_t> readable_pitch(const Plan& plan, ValueId id) {
  const Value& value = plan.graph.value(id);
  const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
  const bool channels_last = placement.layout == Layout::kChannelsLast;
  if (!channels_last && value.shape.size() > 2 && !is_layout_neutral(value)) return std::nullopt;
  const std::int64_t pitch = channels_last ? placement.pitch : value.shape[1];
  if (pitch * static_cast<std::int64_t>(size_of(value.dtype)) % 16 != 0 ||
      placement.offset % 16 != 0)
    return std::nullopt;
  return pitch;
}

bool ConvSm90Problem::pointwise() const {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (kernel[axis] != 1 || stride[axis] != 1 || pad[axis] != 0 || in[axis] != out[axis])
      return false;
  }
  return true;
}

double ConvSm90Problem::flops() const {
  const double mean_taps = transposed ? mean_steps() / static_cast<double>(channel_blocks())
                                      : static_cast<double>(taps());
  return 2.0 * static_cast<double>(pixels()) * static_cast<double>(outputs) *
             static_cast<double>(channels) * mean_taps +
         more_flops;
}

int ConvSm90Problem::step_bytes() const {
  // A step costs about as much as 32 bytes more of channels.
  const std::int64_t bytes = channels * static_cast<std::int64_t>(size_of(dtype));
  int best = 128;
  for (const int step : {64, 32}) {
    if (ceil_div(bytes, step) * (step + 32) < ceil_div(bytes, best) * (best + 32)) best = step;
  }
  return best;
}

std::int64_t ConvSm90Problem::step_channels() const {
  return step_bytes() / static_cast<std::int64_t>(size_of(dtype));
}

std::int64_t ConvSm90Problem::channel_blocks() const { return ceil_div(channels, step_channels()); }

std::int64_t ConvSm90Problem::least_steps() const {
  if (!transposed) return steps();
  std::int64_t least = channel_blocks();
  for (std::size_t axis = 0; axis < 2; ++axis)
    least *= transposed->kernel[axis] / transposed->stride[axis];
  return least;
}

double ConvSm90Problem::mean_steps() const {
  if (!transposed) return static_cast<double>(steps());
  double mean = static_cast<double>(channel_blocks());
  for (std::size_t axis = 0; axis < 2; ++axis)
    mean *= static_cast<double>(transposed->kernel[axis]) /
            static_cast<double>(transposed->stride[axis]);
  return mean;
}

std::vector<std::int64_t> ConvSm90Problem::weights_of(std::int64_t output) const {
  std::vector<std::int64_t> list;
  if (!transposed) {
    for (std::int64_t tap = 0; tap < taps(); ++tap) list.push_back(output * output_stride + tap);
    return list;
  }
  const std::int64_t phase = output / transposed->columns, k = output % transposed->columns;
  if (k >= transposed->outputs) return list;
  const std::int64_t f[2] = {phase / transposed->stride[1], phase % transposed->stride[1]};
  // Backwards, from the last tap that the phase has in the filter.
  const auto last = [&](std::size_t axis) {
    return f[axis] +
           (kernel[axis] - (f[axis] < transposed->whole[axis] ? 1 : 2)) * transposed->stride[axis];
  };
  for (std::int64_t y = last(0); y >= 0; y -= transposed->stride[0]) {
    for (std::int64_t x = last(1); x >= 0; x -= transposed->stride[1])
      list.push_back(k * output_stride + y * transposed->kernel[1] + x);
  }
  return list;
}

ConvSm90Problem ConvSm90Problem::in_tiles_of(int tile_channels) const {
  ConvSm90Problem problem = *this;
  if (!transposed || !transposed->unequal()) return problem;
  problem.transposed->columns = ceil_div(transposed->outputs, tile_channels) * tile_channels;
  problem.outputs = transposed->stride[0] * transposed->stride[1] * problem.transposed->columns;
  return problem;
}

ConvSm90Problem conv_sm90_problem(const Graph& graph, const Node& node) {
  ConvSm90Problem problem;
  const Value& x = graph.value(node.input(0));
  problem.dtype = x.dtype;
  if (node.kind() == OpKind::kConv) {
    const ConvProblem conv = conv_problem(graph, node);
    problem.batch = conv.batch;
    problem.channels = conv.channels;
    problem.outputs = conv.outputs;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      problem.in[axis] = conv.in[axis + 1];
      problem.out[axis] = conv.out[axis + 1];
      problem.kernel[axis] = conv.kernel[axis + 1];
      problem.stride[axis] = conv.stride[axis + 1];
      problem.dilation[axis] = conv.dilation[axis + 1];
      problem.pad[axis] = conv.pad[axis + 1];
    }
    problem.output_stride = conv.channels * conv.taps();
    problem.channel_stride = conv.taps();
  } else if (node.kind() == OpKind::kConvTranspose) {
    set_transposed(graph, node, problem);
  } else {
    const ImageConv product = *image_conv(graph, node);
    problem.in[1] = problem.out[1] = x.shape[0];
    problem.channels = x.shape[1];
    problem.outputs = graph.value(node.output()).shape[1];
    problem.output_stride = product.output_stride;
    problem.channel_stride = product.channel_stride;
  }
  return problem;
}

ConvSm90Problem ConvSm90Sum::problem() const {
  ConvSm90Problem all = terms.front().problem;
  for (std::size_t i = 1; i < terms.size(); ++i) {
    all.more_steps += terms[i].problem.steps();
    all.more_flops += terms[i].problem.flops();
  }
  return all;
}

Address pack_bias(const Plan& plan, ValueId bias, std::int64_t channels, Kernel& kernel) {
  if (bias != kNoValue) return add_floats(kernel, *plan.graph.value(bias).constant, channels);
  return add_constant(kernel, std::vector<std::byte>(static_cast<std::size_t>(channels) * 4));
}

Address pack_biases(const Plan& plan, const std::vector<ValueId>& biases, std::int64_t channels,
                    Kernel& kernel) {
  const Address sum = pack_bias(plan, biases.empty() ? kNoValue : biases[0], channels, kernel);
  for (std::size_t i = 1; i < biases.size(); ++i) {
    Kernel other;
    const Address at = pack_bias(plan, biases[i], channels, other);
    std::vector<std::byte>& to = kernel.constants[static_cast<std::size_t>(sum.index)];
    const std::vector<std::byte>& from = other.constants[static_cast<std::size_t>(at.index)];
    for (std::size_t byte = 0; byte < to.size(); byte += sizeof(float)) {
      float a = 0, b = 0;
      std::memcpy(&a, &to[byte], sizeof a);
      std::memcpy(&b, &from[byte], sizeof b);
      a += b;
      std::memcpy(&to[byte], &a, sizeof a);
    }
  }
  return sum;
}

}  // namespace braze::cuda
