// MatMul (batched, broadcast, with vectors) and Gemm, on the tiles that convolutions use; what
// multiplies is the fastest that the device has. A constant matrix is packed like a filter.
//
// Results of rank 2 have rows for pixels and columns for channels; of any other rank a row is a run
// of pixels of some channel, and is finished element by element.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "graph/window.hpp"
#include "kernels/cpu/gemm.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels/cuda/product.hpp"

namespace braze::cuda {
namespace {

DType compute_of(const Graph& graph, const Node& node) { return graph.value(node.input(0)).dtype; }

ProductSize size_of(const cpu::GemmProblem& problem) {
  return {problem.batch(), problem.rows, problem.columns, problem.depth};
}

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.kind() != OpKind::kMatMul && node.kind() != OpKind::kGemm)
    return Support::no("operator", "runs MatMul and Gemm only");
  const DType dtype = compute_of(graph, node);
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBFloat16)
    return Support::no(
        "dtype", fmt::format("multiplies float, float16 and bfloat16, not {}", to_string(dtype)));
  const cpu::GemmProblem problem = cpu::gemm_extents(graph, node);
  constexpr std::int64_t kMost = 1 << 30;
  const std::int64_t tiles =
      ceil_div(problem.rows, 32) * ceil_div(problem.columns, 32) * problem.batch();
  if (std::max({problem.rows, problem.columns, problem.depth, tiles}) > kMost / 32)
    return Support::no("extent", "a matrix has more than 2^25 rows or columns, or tiles");
  return Support::yes();
}

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device& device) {
  const Node& node = cpu::anchor_of(graph, group);
  return product_candidates(size_of(cpu::gemm_extents(graph, node)),
                            arithmetic_of(compute_of(graph, node), device), device);
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const Node& node = cpu::anchor_of(graph, group);
  const cpu::GemmProblem problem = cpu::gemm_extents(graph, node);
  const Arithmetic arithmetic = arithmetic_of(compute_of(graph, node), device);
  Work work =
      cpu::streaming_work(graph, group, problem.flops(),
                          product_efficiency(size_of(problem), arithmetic, candidate, device));
  work.units = product_units(size_of(problem), arithmetic, candidate);
  return work;
}

/// A matrix operand: element (row, k) of product g is at offsets[g] + row * stride_row + k *
/// stride_depth.
struct Matrix {
  ValueId id;
  const std::vector<std::int64_t>& offsets;
  std::int64_t rows, depth, stride_row, stride_depth;
};

/// `rounds`: the multiplier rounds this operand to tf32 itself.
ProductOperand operand_of(Kernel& kernel, const Plan& plan, const Group& group,
                          const ProductJob& job, const Matrix& matrix, int tile_rows, bool rounds) {
  const auto& offsets = matrix.offsets;
  const bool one = std::all_of(offsets.begin(), offsets.end(),
                               [&](std::int64_t offset) { return offset == offsets.front(); });
  const Value& constant = plan.graph.value(matrix.id);
  if (constant.is_constant()) {
    const std::vector<float> values = load<float>(*constant.constant);
    const auto element = [&](std::int64_t g, std::int64_t r, std::int64_t k) {
      return values[static_cast<std::size_t>(offsets[static_cast<std::size_t>(g)] +
                                             r * matrix.stride_row + k * matrix.stride_depth)];
    };
    ProductOperand packed =
        packed_operand(kernel, job.arithmetic, one ? 1 : static_cast<std::int64_t>(offsets.size()),
                       matrix.rows, matrix.depth, tile_rows, job.tile.row_bytes, element);
    if (one) packed.rows.stride_product = 0;
    return packed;
  }
  const ValueId id = loaded_value(plan, group, matrix.id);
  const Value& value = plan.graph.value(id);
  const auto size = static_cast<std::int64_t>(braze::size_of(value.dtype));
  const std::int64_t unit = std::min<std::int64_t>(16, job.arithmetic.chunk() * size);
  const auto aligned = [&](std::int64_t elements) { return elements * size % unit == 0; };
  const bool chunks = matrix.stride_depth == 1 && aligned(matrix.stride_row) &&
                      std::all_of(offsets.begin(), offsets.end(), aligned) &&
                      plan.placements[static_cast<std::size_t>(id)].offset % unit == 0;
  ProductOperand operand;
  operand.rows.rows = static_cast<int>(matrix.rows);
  operand.rows.depth = static_cast<int>(matrix.depth);
  operand.rows.stride_axis[2] = matrix.stride_row;
  operand.rows.stride_depth = matrix.stride_depth;
  operand.stored = device_type(value.dtype);
  operand.load = load_of(job.arithmetic, value.dtype, chunks, rounds);
  operand.data = address_of(plan, group, matrix.id, kernel);
  if (!one) {
    const auto bytes = std::as_bytes(std::span(offsets));
    operand.offsets = add_constant(kernel, {bytes.begin(), bytes.end()});
  }
  return operand;
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const Group::Member& member = group.members.front();
  const cpu::GemmProblem problem = cpu::gemm_extents(plan.graph, node);
  const Value& y = plan.graph.value(member.result);

  Kernel result;
  if (element_count(y.shape) == 0) {
    result.grid.x = 0;
    return result;
  }
  ProductJob job;
  job.size = size_of(problem);
  job.alpha = problem.alpha;
  job.arithmetic = arithmetic_of(compute_of(plan.graph, node), plan.device);
  job.tile = product_tile(job.arithmetic, kernel.candidate);
  job.split = static_cast<int>(kernel.candidate.get("split", 1));
  job.tile.row_bytes = 64;
  const Matrix a{node.input(0), problem.a_offsets, problem.rows,
                 problem.depth, problem.a_row,     problem.a_depth};
  const Matrix b{node.input(1), problem.b_offsets, problem.columns,
                 problem.depth, problem.b_column,  problem.b_depth};
  job.a = operand_of(result, plan, group, job, a, job.tile.rows, true);
  job.b = operand_of(result, plan, group, job, b, job.tile.columns, false);
  // Of rank 2, but with a vector for an operand, it is a batch of products too.
  job.channels_inside = y.shape.size() == 2;
  job.flat = !job.channels_inside || problem.rows != y.shape[0] || problem.batch() != 1;
  if (job.flat) {
    job.store = {1, false, false};
  } else {
    job.store = store_shape(plan, member.result, 1, problem.columns);
    job.store.along_pixels = false;
  }
  EpilogueEmitter epilogue(plan, kernel, result, job.store.vector);
  if (node.kind() == OpKind::kGemm && node.input(2) != kNoValue && problem.beta != 0)
    epilogue.add_scaled(node.input(2), node.as<Gemm>()->beta);
  epilogue.add_steps(member);
  emit_product(result, "gemm_cuda", plan, member.result, job, epilogue);
  return result;
}

}  // namespace

Row gemm_cuda() {
  KernelFamily family;
  family.name = "gemm_cuda";
  family.backend = "cuda";
  family.layouts = LayoutRule::kModelOnly;
  family.epilogue = true;
  family.converts = true;
  family.supports = supports;
  family.candidates = candidates;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
