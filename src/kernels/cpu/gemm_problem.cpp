#include <algorithm>

#include "base/error.hpp"
#include "kernels/cpu/gemm.hpp"

namespace braze::cpu {
namespace {

/// Element offsets of the products of one operand, whose batch axes broadcast to `batch`.
std::vector<std::int64_t> batch_offsets(const Shape& batch, const Shape& own, std::int64_t matrix) {
  std::vector<std::int64_t> strides(batch.size(), 0);
  std::int64_t stride = matrix;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::size_t axis = own.size() - 1 - i;
    if (own[axis] != 1) strides[batch.size() - 1 - i] = stride;
    stride *= own[axis];
  }
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(element_count(batch)), 0);
  for (std::size_t index = 0; index < offsets.size(); ++index) {
    auto rest = static_cast<std::int64_t>(index);
    for (std::size_t axis = batch.size(); axis-- > 0;) {
      offsets[index] += rest % batch[axis] * strides[axis];
      rest /= batch[axis];
    }
  }
  return offsets;
}

Shape batch_axes(const Shape& shape) {
  return shape.size() < 2 ? Shape{} : Shape(shape.begin(), shape.end() - 2);
}

void from_matmul(const Graph& graph, const Node& node, GemmProblem& problem) {
  const Shape& a = graph.value(node.input(0)).shape;
  const Shape& b = graph.value(node.input(1)).shape;
  problem.rows = a.size() == 1 ? 1 : a[a.size() - 2];
  problem.depth = a.back();
  problem.columns = b.size() == 1 ? 1 : b.back();
  problem.a_row = problem.depth;
  problem.b_depth = problem.columns;
  const Shape a_batch = batch_axes(a), b_batch = batch_axes(b);
  Shape batch(std::max(a_batch.size(), b_batch.size()), 1);
  for (const Shape* own : {&a_batch, &b_batch}) {
    for (std::size_t i = 0; i < own->size(); ++i) {
      if ((*own)[own->size() - 1 - i] != 1)
        batch[batch.size() - 1 - i] = (*own)[own->size() - 1 - i];
    }
  }
  problem.a_offsets = batch_offsets(batch, a_batch, problem.rows * problem.depth);
  problem.b_offsets = batch_offsets(batch, b_batch, problem.depth * problem.columns);
  if (problem.batch() > 1 && element_count(b_batch) == 1) {  // one b: one product of more rows
    problem.rows *= problem.batch();
    problem.a_offsets = problem.b_offsets = {0};
  }
}

void from_gemm(const Graph& graph, const Node& node, const Gemm& op, GemmProblem& problem) {
  const Shape& a = graph.value(node.input(0)).shape;
  const Shape& b = graph.value(node.input(1)).shape;
  problem.rows = a[op.trans_a ? 1 : 0];
  problem.depth = a[op.trans_a ? 0 : 1];
  problem.columns = b[op.trans_b ? 0 : 1];
  problem.a_row = op.trans_a ? 1 : problem.depth;
  problem.a_depth = op.trans_a ? problem.rows : 1;
  problem.b_depth = op.trans_b ? 1 : problem.columns;
  problem.b_column = op.trans_b ? problem.depth : 1;
  problem.a_offsets = problem.b_offsets = {0};
  problem.alpha = static_cast<float>(op.alpha);
  problem.beta = static_cast<float>(op.beta);
  if (node.input(2) == kNoValue) return;
  const Shape& c = graph.value(node.input(2)).shape;
  const std::int64_t rows = c.size() < 2 ? 1 : c[0];
  const std::int64_t columns = c.empty() ? 1 : c.back();
  problem.c_row = rows == 1 ? 0 : columns;
  problem.c_column = columns == 1 ? 0 : 1;
}

}  // namespace

GemmProblem gemm_extents(const Graph& graph, const Node& node) {
  GemmProblem problem;
  if (const auto* op = node.as<Gemm>()) {
    from_gemm(graph, node, *op, problem);
  } else {
    from_matmul(graph, node, problem);
  }
  return problem;
}

GemmProblem gemm_problem(const Plan& plan, const Group& group) {
  const Node& node = anchor_of(plan.graph, group);
  GemmProblem problem = gemm_extents(plan.graph, node);
  if (node.kind() == OpKind::kGemm && problem.beta != 0)
    problem.c = operand_of(plan, group, node.input(2));
  problem.a = operand_of(plan, group, node.input(0));
  problem.b = operand_of(plan, group, node.input(1));
  problem.output = output_index(group, stored_output(plan.graph, group));
  return problem;
}

GemmFinish::GemmFinish(const Plan& plan, const KernelPlan& kernel, const GemmProblem& problem)
    : adds_c_(problem.c.present()),
      epilogue_(plan, kernel, kernel.group.members.front()),
      shape_(plan.graph.value(stored_output(plan.graph, kernel.group)).shape) {}

std::vector<float> GemmFinish::take_bias(const GemmProblem& problem) {
  if (!adds_c_ || !problem.c.constant.defined() || problem.c_row != 0) return {};
  adds_c_ = false;
  std::vector<float> bias(static_cast<std::size_t>(problem.columns));
  const auto* c = problem.c.constant.as<float>();
  for (std::int64_t n = 0; n < problem.columns; ++n) {
    bias[static_cast<std::size_t>(n)] = problem.beta * c[n * problem.c_column];
  }
  return bias;
}

Clamp GemmFinish::take_clamp() { return adds_c_ ? Clamp{} : epilogue_.take_leading_clamp(); }

// How a rectangle lies in the result [n, c, spatial...] decides which of its axes the epilogue sees
// as channels:
//   rank 2: rows are pixels, columns are channels;  rank 3: rows are channels, columns are pixels;
//   above: a row is a run of pixels of one channel;  rank 1: its only axis is channels.
void GemmFinish::apply(const KernelArguments& arguments, const GemmProblem& problem,
                       std::int64_t index, std::int64_t row, std::int64_t rows, std::int64_t column,
                       std::int64_t columns, float* data) const noexcept {
  const std::int64_t width = problem.columns;
  if (adds_c_) {
    const auto* c = static_cast<const float*>(problem.c.data(arguments));
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* from = c + (row + r) * problem.c_row + column * problem.c_column;
      float* to = data + r * width;
      for (std::int64_t n = 0; n < columns; ++n) to[n] += problem.beta * from[n * problem.c_column];
    }
  }
  if (epilogue_.empty()) return;
  Tile tile;
  tile.data = data;
  if (shape_.size() <= 2) {
    const bool is_column = shape_.size() < 2 && width == 1;  // [m]: its elements lie together
    tile.pixel = is_column ? 0 : row, tile.pixels = is_column ? 1 : rows,
    tile.stride_pixel = is_column ? rows : width;
    tile.channel = is_column ? row : column, tile.channels = is_column ? rows : columns;
    return epilogue_.apply(arguments, tile);
  }
  const std::int64_t channels = shape_[1];
  const std::int64_t pixels = element_count(shape_) / (shape_[0] * channels);
  for (std::int64_t done = 0; done < rows;) {
    const std::int64_t element = ((index * problem.rows + row + done) * width + column);
    tile.data = data + done * width;
    tile.n = element / (channels * pixels);
    tile.channel = element / pixels % channels;
    tile.pixel = element % pixels;
    tile.pixels = columns, tile.stride_pixel = 1;
    tile.channels = pixels == width ? std::min(rows - done, channels - tile.channel) : 1;
    tile.stride_channel = pixels;
    epilogue_.apply(arguments, tile);
    done += tile.channels;
  }
}

}  // namespace braze::cpu
