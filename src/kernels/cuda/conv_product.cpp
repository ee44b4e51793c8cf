// Convolution as a product: rows are pixels, columns output channels, the depth is the window.
// Three families that differ in what multiplies.
//
//   conv_sm80      mma.sync: fp16, bf16, tf32; sm_80 and up
//   conv_portable  wmma: fp16 from sm_70, bf16 from sm_80
//   conv_simt      exact fp32; bf16 where there are no tensor cores for it
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "graph/window.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels/cuda/product.hpp"

namespace braze::cuda {
namespace {

Support supports_product(const Graph& graph, const Node& node) {
  if (const Support support = supports_conv(graph, node); !support.ok) return support;
  if (!graph.value(node.input(1)).is_constant())
    return Support::no("weights", "the filter is not a constant");
  const ConvProblem problem = conv_problem(graph, node);
  if (problem.groups > 1 && problem.outputs < 8)
    return Support::no("groups",
                       fmt::format("{} output channels in a group; at least 8", problem.outputs));
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if ((problem.kernel[axis] - 1) * problem.dilation[axis] > std::numeric_limits<short>::max())
      return Support::no("window", "a window extends over more than 2^15 elements");
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (problem.batch * problem.pixels() > kMost / 2 ||
      ceil_div(problem.batch * problem.pixels(), 32) * problem.groups *
              ceil_div(problem.outputs, 32) >
          kMost / 32)
    return Support::no("extent", "the result has more than 2^30 pixels, or tiles");
  return Support::yes();
}

DType compute_of(const Graph& graph, const Node& node) { return graph.value(node.input(0)).dtype; }

template <Multiplier kMultiplier>
Support supports(const Graph& graph, const Node& node, const Device& device) {
  if (const Support support = supports_product(graph, node); !support.ok) return support;
  const DType dtype = compute_of(graph, node);
  const bool is_float = dtype == DType::kFloat32;
  if constexpr (kMultiplier == Multiplier::kMma) {
    if (device.sm < 80) return Support::no("device", "needs sm_80");
    if (is_float && !device.tf32)
      return Support::no("precision", "products of floats would be rounded to tf32");
  } else if constexpr (kMultiplier == Multiplier::kWmma) {
    if (device.sm < 70) return Support::no("device", "needs sm_70");
    if (is_float) return Support::no("dtype", "only float16 and bfloat16");
    if (dtype == DType::kBFloat16 && device.sm < 80)
      return Support::no("device", "bfloat16 needs sm_80");
  } else {
    if (!is_float && (dtype != DType::kBFloat16 || device.sm >= 80))
      return Support::no("dtype", "only float, and bfloat16 below sm_80");
  }
  return Support::yes();
}

ProductSize size_of(const ConvProblem& problem) {
  return {problem.groups, problem.batch * problem.pixels(), problem.outputs,
          problem.channels * problem.taps()};
}

/// Bytes of shared memory that the input rows of a tile of pixels take, channels padded to 4, or 0
/// where that does not pay or the windows are not whole chunks of 16 bytes apart.
std::int64_t image_bytes(const ConvProblem& problem, const Arithmetic& arithmetic,
                         const TileShape& tile) {
  constexpr std::int64_t kMostBytes = 98304, kMostTaps = 64;
  const std::int64_t tap = 4 * arithmetic.element_bytes(), taps = 16 / tap;  // of a chunk
  const auto& [d, h, w] = problem.out;
  const bool fits = arithmetic.multiplier == Multiplier::kMma && problem.groups == 1 &&
                    problem.channels <= 4 && problem.taps() > 1 && problem.taps() <= kMostTaps &&
                    problem.in[0] == 1 && d == 1 && problem.kernel[0] == 1 && problem.pad[0] == 0 &&
                    problem.dilation[1] == 1 && problem.dilation[2] == 1 &&
                    problem.stride[2] % taps == 0 && problem.stride[1] <= problem.kernel[1];
  if (!fits) return 0;
  const std::int64_t width = (w - 1) * problem.stride[2] + ceil_div(problem.kernel[2], taps) * taps;
  const std::int64_t lines = (tile.rows + w - 2) / w + 1, images = (lines + h - 2) / h + 1;
  const std::int64_t rows = (lines - images) * problem.stride[1] + images * problem.kernel[1];
  const std::int64_t padded_rows =
      problem.batch * ((h - 1) * problem.stride[1] + problem.kernel[1]);
  const std::int64_t bytes = rows * ceil_div(width, taps) * 16;
  const std::int64_t depth = problem.kernel[1] * ceil_div(problem.kernel[2], taps) * 16;
  const std::int64_t weights = tile.columns * (ceil_div(depth, 128) * 128 + 16);
  const std::int64_t sums = tile.rows * (tile.columns + 8) * 4;
  const bool shared = weights + std::max(bytes, sums) <= kMostBytes;
  return shared && padded_rows < (1 << 30) ? bytes : 0;
}

template <Multiplier kMultiplier>
std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device& device) {
  const Node& node = cpu::anchor_of(graph, group);
  const ConvProblem problem = conv_problem(graph, node);
  const Arithmetic arithmetic = arithmetic_of(kMultiplier, compute_of(graph, node), device);
  std::vector<Candidate> list = product_candidates(size_of(problem), arithmetic, device);
  std::erase_if(list, [&](const Candidate& candidate) {
    return candidate.get("split", 1) > 1 &&
           image_bytes(problem, arithmetic, product_tile(arithmetic, candidate)) != 0;
  });
  return list;
}

template <Multiplier kMultiplier>
Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const Node& node = cpu::anchor_of(graph, group);
  const ConvProblem problem = conv_problem(graph, node);
  const Arithmetic arithmetic = arithmetic_of(kMultiplier, compute_of(graph, node), device);
  double efficiency = product_efficiency(size_of(problem), arithmetic, candidate, device);
  // Few channels outside of an image are gathered one by one, at 0.3 TFLOP/s of an SM (measured).
  constexpr double kGatherRate = 3e11;
  const std::int64_t chunk = arithmetic.chunk();
  const bool gathers = ceil_div(problem.channels, chunk) * chunk > 2 * problem.channels &&
                       image_bytes(problem, arithmetic, product_tile(arithmetic, candidate)) == 0;
  if (gathers) efficiency = std::min(efficiency, kGatherRate * device.units / arithmetic.peak);
  Work work = cpu::streaming_work(graph, group, problem.flops(), efficiency);
  work.units = product_units(size_of(problem), arithmetic, candidate);
  return work;
}

/// May chunks of adjacent channels of x be read at once, and does that not waste more than half?
bool takes_chunks(const Plan& plan, ValueId x, const ConvProblem& problem, std::int64_t chunk) {
  const Value& value = plan.graph.value(x);
  const Placement& placement = plan.placements[static_cast<std::size_t>(x)];
  if (value.is_constant() || placement.layout != Layout::kChannelsLast) return false;
  const auto size = static_cast<std::int64_t>(size_of(value.dtype));
  const std::int64_t unit = std::min<std::int64_t>(16, chunk * size);
  const bool aligned = placement.pitch * size % unit == 0 && placement.offset % unit == 0 &&
                       (problem.groups == 1 || problem.channels * size % unit == 0);
  return aligned && ceil_div(problem.channels, chunk) * chunk <= 2 * problem.channels;
}

/// The pixels of x, their windows gathered. `step` channels of a tap are one entry of the table; a
/// tap's channels are padded to whole steps.
ProductOperand pixels(Kernel& kernel, const Plan& plan, ValueId x, const ConvProblem& problem,
                      std::int64_t step, std::int64_t padded_depth) {
  ProductOperand operand;
  const cpu::Image image = cpu::image_of(plan, x);
  device::ProductRows& rows = operand.rows;
  rows.stride_product = problem.channels * image.stride_c;
  rows.stride_n = image.stride_n;
  rows.stride_axis[0] = image.stride_d;
  rows.stride_axis[1] = image.stride_h;
  rows.stride_axis[2] = image.stride_w;
  rows.stride_depth = image.stride_c;
  rows.depth = static_cast<int>(problem.channels * problem.taps());
  bool padded = false;
  for (std::size_t i = 0; i < 3; ++i) {
    rows.in[i] = static_cast<int>(problem.in[i]);
    rows.out[i] = static_cast<int>(problem.out[i]);
    rows.stride[i] = static_cast<int>(problem.stride[i]);
    rows.pad[i] = static_cast<int>(problem.pad[i]);
    // The last window may stick out without padding at the begin.
    padded |= problem.pad[i] != 0 || (problem.out[i] - 1) * problem.stride[i] >= problem.in[i];
  }
  operand.stored = device_type(plan.graph.value(x).dtype);
  if (problem.taps() == 1 && !padded) {
    operand.kind = "kPixels";
    return operand;
  }
  operand.kind = "kWindows";
  const auto& taps = problem.kernel;
  std::vector<device::DepthEntry> table;
  for (std::int64_t d = 0; d < taps[0]; ++d) {
    for (std::int64_t h = 0; h < taps[1]; ++h) {
      for (std::int64_t w = 0; w < taps[2]; ++w) {
        device::DepthEntry entry{};
        entry.d = static_cast<short>(d * problem.dilation[0]);
        entry.h = static_cast<short>(h * problem.dilation[1]);
        entry.w = static_cast<short>(w * problem.dilation[2]);
        for (std::int64_t c = 0; c < problem.channels; c += step) {
          entry.offset = entry.d * image.stride_d + entry.h * image.stride_h +
                         entry.w * image.stride_w + c * image.stride_c;
          entry.count = static_cast<short>(std::min(step, problem.channels - c));
          table.push_back(entry);
        }
      }
    }
  }
  table.resize(static_cast<std::size_t>(padded_depth / step));
  std::vector<std::byte> bytes(table.size() * sizeof(device::DepthEntry));
  std::memcpy(bytes.data(), table.data(), bytes.size());
  operand.table = add_constant(kernel, std::move(bytes));
  return operand;
}

/// The product with the input's rows in shared memory: one launch, no split.
void use_image(ProductJob& job, Kernel& kernel, const ConvProblem& problem,
               const std::vector<float>& weights) {
  const std::int64_t taps = 4 / job.arithmetic.element_bytes();
  const std::int64_t row = ceil_div(problem.kernel[2], taps) * taps;  // taps, padded
  job.split = 1;
  job.size.depth = problem.kernel[1] * row * 4;
  job.filter_h = problem.kernel[1];
  job.filter_w = problem.kernel[2];
  job.a.rows.depth = static_cast<int>(problem.channels);
  job.a.load = "kElements";
  job.a.table_entries = 0;
  const auto element = [&](std::int64_t, std::int64_t k, std::int64_t depth) {
    const std::int64_t c = depth % 4, s = depth / 4 % row, r = depth / 4 / row;
    if (c >= problem.channels || s >= problem.kernel[2]) return 0.0f;
    const std::int64_t from =
        ((k * problem.channels + c) * problem.kernel[1] + r) * problem.kernel[2] + s;
    return weights[static_cast<std::size_t>(from)];
  };
  job.b = packed_operand(kernel, job.arithmetic, 1, problem.outputs, job.size.depth,
                         job.tile.columns, job.tile.row_bytes, element);
}

template <Multiplier kMultiplier>
Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const Group::Member& member = group.members.front();
  const ConvProblem problem = conv_problem(plan.graph, node);
  const ValueId x = loaded_value(plan, group, node.input(0));
  const DType stored = plan.graph.value(x).dtype;

  Kernel result;
  ProductJob job;
  job.arithmetic = arithmetic_of(kMultiplier, compute_of(plan.graph, node), plan.device);
  job.tile = product_tile(job.arithmetic, kernel.candidate);
  job.split = static_cast<int>(kernel.candidate.get("split", 1));
  const bool chunks = takes_chunks(plan, x, problem, job.arithmetic.chunk());
  const char* const way = load_of(job.arithmetic, stored, chunks, true);
  // Elements wait in registers: a stage of half the depth needs half of them.
  if (way != std::string_view("kAsync")) job.tile.row_bytes = 64;

  const std::int64_t step = chunks ? job.arithmetic.chunk() : 1;
  const std::int64_t channels = ceil_div(problem.channels, step) * step;  // padded
  const std::int64_t block = job.tile.row_bytes / job.arithmetic.element_bytes();
  job.size = size_of(problem);
  job.size.depth = problem.taps() * channels;
  job.a = pixels(result, plan, x, problem, step, ceil_div(job.size.depth, block) * block);
  job.a.load = way;
  job.a.data = address_of(plan, group, node.input(0), result);
  if (job.a.kind == std::string_view("kWindows"))
    job.a.table_entries = static_cast<int>(block / step);

  const std::vector<float> weights = load<float>(*plan.graph.value(node.input(1)).constant);
  const auto element = [&](std::int64_t g, std::int64_t k, std::int64_t depth) {
    const std::int64_t c = depth % channels;
    if (c >= problem.channels) return 0.0f;
    const std::int64_t row = (g * problem.outputs + k) * problem.channels + c;
    return weights[static_cast<std::size_t>(row * problem.taps() + depth / channels)];
  };
  job.image_bytes = image_bytes(problem, job.arithmetic, job.tile);
  if (job.image_bytes != 0) {
    use_image(job, result, problem, weights);
  } else {
    job.b = packed_operand(result, job.arithmetic, problem.groups, problem.outputs, job.size.depth,
                           job.tile.columns, job.tile.row_bytes, element);
  }
  job.store = store_shape(plan, member.result, problem.groups, problem.outputs);
  job.step_channel = static_cast<int>(problem.outputs);

  EpilogueEmitter epilogue(plan, kernel, result, job.store.vector);
  epilogue.add_bias(node.input(2));
  epilogue.add_steps(member);
  emit_product(result, kernel.family, plan, member.result, job, epilogue);
  return result;
}

template <Multiplier kMultiplier>
Row row(std::string_view name) {
  KernelFamily family = image_family(name);
  family.supports = supports<kMultiplier>;
  family.candidates = candidates<kMultiplier>;
  family.work = work<kMultiplier>;
  return {family, build<kMultiplier>};
}

}  // namespace

Row conv_sm80() { return row<Multiplier::kMma>("conv_sm80"); }
Row conv_portable() { return row<Multiplier::kWmma>("conv_portable"); }
Row conv_simt() { return row<Multiplier::kFma>("conv_simt"); }

}  // namespace braze::cuda
