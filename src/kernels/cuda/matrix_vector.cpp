// Fully connected layers of a few rows, and 1x1 convolutions of images of one pixel: what the bytes
// of the weights bound, or latency. See device/matrix_vector.cuh.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "graph/window.hpp"
#include "kernels/cpu/gemm.hpp"
#include "kernels/cuda/conv_problem.hpp"
#include "kernels/cuda/device/matrix_vector_parameters.h"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels/cuda/pack.hpp"

namespace braze::cuda {
namespace {

constexpr std::string_view kName = "matrix_vector";

/// y[row, output] = alpha * sum over depth of x[row, k] w[output, k]. Strides in elements of the
/// weights' tensor.
struct Problem {
  DType dtype = DType::kFloat32;
  bool tf32 = false, mma = false;
  std::int64_t rows = 1, outputs = 1, depth = 1;
  std::int64_t stride_output = 1, stride_depth = 1;
  float alpha = 1;

  [[nodiscard]] std::int64_t element_bytes() const {
    return static_cast<std::int64_t>(size_of(dtype));
  }
  [[nodiscard]] std::int64_t tiles() const { return ceil_div(outputs, device::kVectorTile); }
  [[nodiscard]] std::int64_t groups() const {
    return ceil_div(depth * element_bytes(), device::kVectorGroupBytes);
  }
  /// Groups of depth whose loads a warp issues at once: kGroups of matrix_vector.cuh.
  [[nodiscard]] int batch() const {
    if (mma) return rows <= 8 ? 4 : rows <= 16 ? 2 : 1;
    return rows == 1 ? 4 : rows == 2 ? 3 : rows <= 4 ? 2 : 1;
  }
};

Problem problem_of(const Graph& graph, const Node& node, const Device& device) {
  Problem problem;
  const Value& x = graph.value(node.input(0));
  problem.dtype = x.dtype;
  problem.mma = device.sm >= 80 && (x.dtype != DType::kFloat32 || device.tf32);
  problem.tf32 = problem.mma && x.dtype == DType::kFloat32;
  problem.rows = x.shape[0];
  problem.depth = x.shape[1];
  problem.outputs = graph.value(node.output()).shape[1];
  const auto* gemm = node.as<Gemm>();
  if (node.kind() == OpKind::kConv || (gemm != nullptr && gemm->trans_b)) {
    problem.stride_output = problem.depth;
  } else {
    problem.stride_depth = problem.outputs;
  }
  if (gemm != nullptr) problem.alpha = static_cast<float>(gemm->alpha);
  return problem;
}

Support supports_node(const Graph& graph, const Node& node) {
  const Value& x = graph.value(node.input(0));
  const Value& w = graph.value(node.input(1));
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kFloat16 && x.dtype != DType::kBFloat16)
    return Support::no("dtype", fmt::format("multiplies float, float16 and bfloat16, not {}",
                                            braze::to_string(x.dtype)));
  if (!w.is_constant() || w.dtype != x.dtype)
    return Support::no("weights",
                       fmt::format("{} is not a constant {}", w.name, braze::to_string(x.dtype)));
  if (node.kind() == OpKind::kConv) {
    if (const Support support = supports_conv(graph, node); !support.ok) return support;
    const ConvProblem problem = conv_problem(graph, node);
    const bool one = problem.taps() == 1 && problem.pixels() == 1 && problem.in[0] == 1 &&
                     problem.in[1] == 1 && problem.in[2] == 1;
    if (!one || problem.groups != 1)
      return Support::no("image", "of convolutions, only dense 1x1 ones of images of one pixel");
    return Support::yes();
  }
  if (x.shape.size() != 2 || w.shape.size() != 2)
    return Support::no("rank", "only products of matrices of rank 2");
  if (const auto* gemm = node.as<Gemm>(); gemm != nullptr && gemm->trans_a)
    return Support::no("transposed", "reads the first matrix by rows");
  return Support::yes();
}

Support supports(const Graph& graph, const Node& node, const Device& device) {
  if (node.kind() != OpKind::kConv && node.kind() != OpKind::kMatMul &&
      node.kind() != OpKind::kGemm)
    return Support::no("operator", "runs Conv, MatMul and Gemm only");
  if (const Support support = supports_node(graph, node); !support.ok) return support;
  const Problem problem = problem_of(graph, node, device);
  if (problem.rows == 0 || problem.depth == 0 || problem.outputs == 0)
    return Support::no("empty", "an operand or the result has no elements");
  // Each tile of outputs reads all of x, which for many rows is more than the weights are.
  constexpr std::int64_t kFew = 8, kMost = 32, kSmall = 1 << 21;
  const bool small = problem.mma && problem.outputs <= kSmall / problem.depth;
  if (problem.rows > (small ? kMost : kFew))
    return Support::no("rows",
                       fmt::format("{} rows; at most {}", problem.rows, small ? kMost : kFew));
  if (std::max(problem.depth, problem.outputs) > 1 << 26)
    return Support::no("extent", "a matrix has more than 2^26 rows or columns");
  return Support::yes();
}

/// Warps of a block: tiles of outputs, parts of the depth; blocks that share a sum.
struct Split {
  int across = 1, down = 1, blocks = 1;
  [[nodiscard]] int warps() const { return across * down; }
};
Split split_of(const Candidate& candidate) {
  const auto get = [&](const char* name) { return static_cast<int>(candidate.get(name, 1)); };
  return {get("across"), get("down"), get("split")};
}
/// Of 128 registers a thread.
constexpr int kWarpsOfAnSm = 16;

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device& device) {
  const Problem problem = problem_of(graph, cpu::anchor_of(graph, group), device);
  std::vector<Candidate> list;
  for (const int down : {8, 16, 4, 2, 1}) {
    for (const int across : {1, 2, 4, 8}) {
      for (const int blocks : {1, 2, 4, 8}) {
        const bool idle = (down > 1 && problem.groups() < down * blocks) ||
                          (across > 1 && problem.tiles() < across);
        const bool odd = down * across < 4 || down * across > kWarpsOfAnSm;
        if (blocks > 1 && (device.sm != 90 || idle || problem.tiles() * blocks > 4 * device.units))
          continue;
        // What is always there, for problems of one group and tile: 4 x 1.
        if (odd || (idle && (down != 4 || across != 1))) continue;
        list.push_back({{{"across", across}, {"down", down}, {"split", blocks}}});
      }
    }
  }
  return list;
}

std::int64_t block_count(const Problem& problem, const Split& split) {
  return ceil_div(problem.tiles(), split.across) * split.blocks;
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const Problem problem = problem_of(graph, cpu::anchor_of(graph, group), device);
  const Split split = split_of(candidate);
  const auto blocks = static_cast<double>(block_count(problem, split));
  const double flops = 2.0 * static_cast<double>(problem.rows * problem.outputs) *
                       static_cast<double>(problem.depth);
  // Besides loads; loads of a warp that are under way together; bytes under way of a
  // multiprocessor, and what it can take.
  constexpr double kBeginUs = 0.4, kRoundUs = 1.0, kLatencyUs = 0.8, kMostOfAnSm = 8e10;
  constexpr double kOfXOfAnSm = 2e10, kSplitUs = 0.3, kSplitBlockUs = 0.1;
  const double on_one = std::ceil(blocks / device.units);
  const double groups =
      std::ceil(std::ceil(static_cast<double>(problem.groups()) / split.blocks) / split.down);
  const double warps = std::min<double>(kWarpsOfAnSm, on_one * split.warps());
  const double under_way = warps * std::min<double>(groups, 2 * problem.batch()) * 1024;
  const double rate = std::min(under_way / (kLatencyUs * 1e-6), kMostOfAnSm);
  const double bytes_of_one = on_one * split.warps() * groups * 1024;
  Work work = cpu::streaming_work(graph, group, flops, 1);
  const double bandwidth =
      work.dram_bytes < device.cache_bytes ? device.cache_bandwidth : device.dram_bandwidth;
  const auto x_bytes =
      static_cast<double>(problem.rows * problem.depth * problem.element_bytes()) / split.blocks;
  double us = kBeginUs + 0.01 * split.down + 0.02 * split.across +
              on_one * split.across * x_bytes / kOfXOfAnSm * 1e6 +
              std::max({work.dram_bytes / bandwidth * 1e6, bytes_of_one / rate * 1e6,
                        kRoundUs * std::ceil(groups / static_cast<double>(problem.batch()))});
  if (split.blocks > 1) us += kSplitUs + kSplitBlockUs * on_one;
  const double peak = problem.tf32                       ? device.flops_tf32
                      : problem.dtype == DType::kFloat32 ? device.flops_fp32
                                                         : device.flops_fp16;
  work.efficiency = std::clamp(flops / peak * 1e6 / us, 1e-9, 1.0);
  work.units = blocks;
  return work;
}

/// [tile][group][vector][lane][16 bytes], of which each register is one output's: see VectorMma and
/// VectorFma.
std::vector<std::byte> pack(const Problem& problem, const Tensor& weights) {
  const std::int64_t size = problem.element_bytes(), each = 4 / size, group_depth = 64 / size;
  const auto* from = static_cast<const std::byte*>(weights.data());
  std::vector<std::byte> bytes(static_cast<std::size_t>(problem.tiles() * problem.groups() * 1024));
  std::byte* to = bytes.data();
  for (std::int64_t tile = 0; tile < problem.tiles(); ++tile) {
    for (std::int64_t group = 0; group < problem.groups(); ++group) {
      for (int i = 0; i < 256; ++i, to += 4) {
        const int r = i % 4, lane = i / 4 % 32, vector = i / 128;
        const int high = problem.mma ? r % 2 : vector,
                  in_lane = problem.mma ? 2 * vector + r / 2 : r;
        const std::int64_t output = tile * device::kVectorTile + lane / 4 + 8 * high;
        const std::int64_t k = group * group_depth + (lane % 4 * 4 + in_lane) * each;
        if (output >= problem.outputs) continue;
        for (std::int64_t e = 0; e < each && k + e < problem.depth; ++e) {
          const std::int64_t at = output * problem.stride_output + (k + e) * problem.stride_depth;
          std::memcpy(to + e * size, from + at * size, static_cast<std::size_t>(size));
        }
        if (!problem.tf32) continue;
        float x = 0;
        std::memcpy(&x, to, sizeof x);
        write_element(to, x, problem.dtype, true);
      }
    }
  }
  return bytes;
}

/// Rows of what a kernel multiplies at once.
std::string multiplier_text(const Problem& problem) {
  const char* type = problem.tf32 ? "tf32" : device_type(problem.dtype);
  if (problem.mma)
    return fmt::format("VectorMma<{}, {}>", type,
                       problem.rows <= 8    ? 1
                       : problem.rows <= 16 ? 2
                                            : 4);
  return fmt::format("VectorFma<{}, {}>", type,
                     problem.rows <= 2   ? problem.rows
                     : problem.rows <= 4 ? 4
                                         : 8);
}
int rows_at_once(const Problem& problem) {
  const int rows = static_cast<int>(problem.rows);
  if (problem.mma) return rows <= 8 ? 8 : rows <= 16 ? 16 : 32;
  return rows <= 2 ? rows : rows <= 4 ? 4 : 8;
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const Group::Member& member = group.members.front();
  const Problem problem = problem_of(plan.graph, node, plan.device);
  const Split split = split_of(kernel.candidate);
  const ValueId x = loaded_value(plan, group, node.input(0));
  const Value& value = plan.graph.value(x);
  const Placement& placement = plan.placements[static_cast<std::size_t>(x)];

  Kernel result;
  device::MatrixVectorParameters p{};
  p.stride_row = value.shape.size() > 2 ? cpu::image_of(plan, x).stride_n : problem.depth;
  p.rows = static_cast<int>(problem.rows);
  p.depth = static_cast<int>(problem.depth);
  p.tiles = static_cast<int>(problem.tiles());
  p.groups = static_cast<int>(problem.groups());
  p.alpha = problem.alpha;
  p.y = output_parameters(plan, member.result);

  EpilogueEmitter epilogue(plan, kernel, result, 1);
  if (node.kind() == OpKind::kConv) {
    epilogue.add_bias(node.input(2));
  } else if (const auto* gemm = node.as<Gemm>();
             gemm != nullptr && node.input(2) != kNoValue && gemm->beta != 0) {
    epilogue.add_scaled(node.input(2), gemm->beta);
  }
  epilogue.add_steps(member);
  p.e = epilogue.parameters();

  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, node.input(0), result));
  parameters.point(p.weights,
                   add_constant(result, pack(problem, *plan.graph.value(node.input(1)).constant)));
  parameters.point(p.y.data, {Address::Of::kOutput, 0, 0});
  epilogue.point(parameters, p.e);
  parameters.move_to(result);

  const auto stored = static_cast<std::int64_t>(size_of(value.dtype));
  const bool at_once = problem.depth % (16 / problem.element_bytes()) == 0 &&
                       (problem.rows == 1 || p.stride_row * stored % 16 == 0) &&
                       placement.offset % 16 == 0;
  const std::string call =
      fmt::format("matrix_vector<{}, {}, {}, {}, {}, {}, {}, Epilogue>", multiplier_text(problem),
                  device_type(value.dtype), at_once, split.across, split.down, split.blocks,
                  device_type(plan.graph.value(member.result).dtype));
  emit(result, kName, {"matrix_vector.cuh"}, epilogue.source(), "MatrixVectorParameters", call,
       32 * split.warps(), kWarpsOfAnSm / split.warps());
  result.grid.x = static_cast<std::uint32_t>(block_count(problem, split));
  result.cluster = static_cast<std::uint32_t>(split.blocks);
  const int sums = split.warps() * rows_at_once(problem) * device::kVectorPitch;
  const int exchanged =
      split.blocks > 1 ? split.blocks * p.rows * device::kVectorTile * split.across : 0;
  result.shared_bytes =
      static_cast<std::uint32_t>(device::kVectorBarrierBytes + (sums + exchanged) * 4);
  result.overlaps = true;
  return result;
}

}  // namespace

Row matrix_vector() {
  KernelFamily family = image_family(kName);
  family.supports = supports;
  family.candidates = candidates;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
