// Dense Conv, and products with a constant matrix, for sm_90a: the family's row.
#include "kernels/cuda/conv_sm90.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/conv_problem.hpp"
#include "kernels/cuda/conv_sm90_patch.hpp"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"
#include "plan/stages.hpp"

namespace braze::cuda {
namespace {

constexpr std::string_view kName = "conv_sm90";

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

/// c of a Gemm as a bias: nothing, or one value for each column.
bool is_bias(const Graph& graph, const Node& node, std::int64_t columns) {
  const ValueId c = node.input(2);
  if (c == kNoValue) return true;
  const Shape& shape = graph.value(c).shape;
  return !shape.empty() && shape.back() == columns && element_count(shape) == columns;
}

Support supports_product(const Graph& graph, const Node& node) {
  const Shape& a = graph.value(node.input(0)).shape;
  const Shape& b = graph.value(node.input(1)).shape;
  if (a.size() != 2 || b.size() != 2)
    return Support::no("rank", "only products of matrices of rank 2");
  if (const auto* gemm = node.as<Gemm>()) {
    if (gemm->trans_a) return Support::no("transposed", "reads the first matrix by rows");
    if (gemm->alpha != 1 || gemm->beta != 1) return Support::no("scale", "alpha and beta are 1");
    if (!is_bias(graph, node, b[gemm->trans_b ? 0 : 1]))
      return Support::no("addend", "adds a vector along columns only");
  }
  return Support::yes();
}

Support supports(const Graph& graph, const Node& node, const Device& device) {
  if (device.sm != 90) return Support::no("device", "needs sm_90");
  const bool conv = node.kind() == OpKind::kConv;
  if (!conv && node.kind() != OpKind::kMatMul && node.kind() != OpKind::kGemm)
    return Support::no("operator", "runs Conv, MatMul and Gemm only");
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
  if (conv) {
    if (const Support general = supports_conv(graph, node); !general.ok) return general;
    if (x.shape.size() > 4)
      return Support::no("rank", fmt::format("input {}; 1 or 2 spatial axes", to_string(x.shape)));
    if (node.as<Conv>()->group != 1)
      return Support::no("groups", fmt::format("{} groups", node.as<Conv>()->group));
  } else if (const Support product = supports_product(graph, node); !product.ok) {
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

ConvSm90TileShape tile_of(const Candidate& candidate) {
  const auto get = [&](const char* name) { return static_cast<int>(candidate.get(name, 1)); };
  return {get("pixels"), get("channels"), get("split"), get("blocks")};
}

/// Bytes of an element of the widest operand that is as large as the result: 0 without one.
int staged_bytes(const Graph& graph, const Group& group) {
  const Group::Member& member = group.members.front();
  std::size_t bytes = 0;
  for (const EpilogueStep& step : member.epilogue.steps) {
    if (step.cast || step.unary) continue;
    const Value& operand = graph.value(step.operand);
    // What a kernel converts while it loads may be fp32.
    if (!operand.is_constant() && operand.shape == graph.value(member.result).shape)
      bytes = std::max(bytes, group.casts.empty() ? size_of(operand.dtype) : sizeof(float));
  }
  return static_cast<int>(bytes);
}

/// Tiles of the kernel that reads patches have rows.
std::optional<PatchTile> patch_of(const Candidate& candidate) {
  const auto get = [&](const char* name) { return static_cast<int>(candidate.get(name, 0)); };
  if (get("rows") == 0) return std::nullopt;
  return PatchTile{get("rows"), get("columns"), get("pixels"), get("warpgroups"), get("split")};
}

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device&) {
  std::vector<Candidate> list;
  const ConvSm90Problem problem = conv_sm90_problem(graph, cpu::anchor_of(graph, group));
  const int staged = staged_bytes(graph, group);
  for (const ConvSm90TileShape& tile : conv_sm90_tiles(problem, staged)) {
    list.push_back({{{"pixels", tile.pixels},
                     {"channels", tile.channels},
                     {"split", tile.split},
                     {"blocks", tile.blocks_per_sm}}});
  }
  for (const PatchTile& tile : patch_tiles(problem, staged)) {
    list.push_back({{{"rows", tile.rows},
                     {"columns", tile.columns},
                     {"pixels", tile.pixels},
                     {"warpgroups", tile.warpgroups},
                     {"split", tile.split}}});
  }
  return list;
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const ConvSm90Problem problem = conv_sm90_problem(graph, cpu::anchor_of(graph, group));
  const double peak = problem.dtype == DType::kFloat32 ? device.flops_tf32 : device.flops_fp16;
  Work work = cpu::streaming_work(graph, group, problem.flops(), 1);
  // Memory and the rest overlap, but not wholly: of candidates that memory bounds, too, the faster
  // one is to be seen.
  const double bandwidth =
      work.dram_bytes < device.cache_bytes ? device.cache_bandwidth : device.dram_bandwidth;
  const double memory_us = work.dram_bytes / bandwidth * 1e6;
  const std::optional<PatchTile> patch = patch_of(candidate);
  const double other_us = patch ? patch_us(problem, *patch, staged_bytes(graph, group), device)
                                : conv_sm90_us(problem, tile_of(candidate), device);
  const double us = std::max(memory_us, other_us) + 0.1 * std::min(memory_us, other_us);
  work.efficiency = problem.flops() / (us * 1e-6 * peak);
  work.units = static_cast<double>(
      patch ? patch_geometry(problem, *patch, staged_bytes(graph, group)).blocks(device)
            : block_count(problem, tile_of(candidate), device));
  return work;
}

/// Elements between adjacent pixels of an image that the TMA can read; nothing if it cannot: not
/// channels-last, or pixels that do not begin at multiples of 16 bytes.
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

/// Where the placement of the input turned out to be unreadable: the next family that takes it.
Kernel build_otherwise(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = cpu::anchor_of(plan.graph, kernel.group);
  for (const Row& row : rows()) {
    if (row.family.name == kName || !row.family.supports(plan.graph, node, plan.device).ok)
      continue;
    KernelPlan other = kernel;
    other.family = row.family.name;
    other.candidate = {};
    double best = -1;
    if (row.family.candidates != nullptr) {
      for (const Candidate& candidate :
           row.family.candidates(plan.graph, kernel.group, plan.device)) {
        const Work work = row.family.work(plan.graph, kernel.group, candidate, plan.device);
        if (work.efficiency <= best) continue;
        best = work.efficiency;
        other.candidate = candidate;
      }
    }
    return row.build(plan, other);
  }
  fail(ErrorCode::kInternal, "internal error: no other kernel runs '{}'", node.id);
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = cpu::anchor_of(plan.graph, kernel.group);
  const ValueId x = loaded_value(plan, kernel.group, node.input(0));
  const std::optional<std::int64_t> pitch = readable_pitch(plan, x);
  if (!pitch || x != node.input(0)) return build_otherwise(plan, kernel);
  if (const std::optional<PatchTile> patch = patch_of(kernel.candidate))
    return build_patch(plan, kernel, *patch, *pitch);
  return build_im2col(plan, kernel, tile_of(kernel.candidate), *pitch);
}

}  // namespace

Row conv_sm90() {
  KernelFamily family = image_family(kName);
  family.supports = supports;
  family.candidates = candidates;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
