// Unary, Binary, Where, Cast, Identity and BatchNorm, as the anchor of a group with any epilogue.
//
// fp32 arithmetic runs on rows of vectors, everything else in typed loops. Both work chunk by
// chunk, and the epilogue follows while a chunk is in L1.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cpu/pointwise_loop.hpp"
#include "kernels/cpu/pointwise_rows.hpp"
#include "kernels/cpu/pointwise_typed.hpp"

namespace braze::cpu {
namespace {

bool all_float(const Graph& graph, const Node& node) {
  const auto is_float32 = [&](ValueId id) { return graph.value(id).dtype == DType::kFloat32; };
  return std::all_of(node.inputs.begin(), node.inputs.end(), is_float32) &&
         is_float32(node.outputs[0]);
}

bool has_rows(BinaryFn fn) { return fn <= BinaryFn::kPRelu; }
bool has_rows(UnaryFn fn) { return fn != UnaryFn::kNot && fn != UnaryFn::kIsNaN; }

/// Chunk by chunk: the anchor, then the epilogue.
class PointwiseKernel : public Kernel {
 public:
  /// x: strides of the operands, in the order of the node's inputs.
  PointwiseKernel(const Plan& plan, const KernelPlan& kernel, const Node& node,
                  std::span<const Ints> x)
      : epilogue_(plan, kernel, kernel.group.members.front()),
        clamp_(epilogue_.take_leading_clamp()) {
    const ValueId result = kernel.group.members.front().result;
    loop_ = PointwiseLoop(plan.graph.value(result).shape, axis_strides(plan, result), x,
                          !epilogue_.empty());
    for (const ValueId id : node.inputs) operands_.push_back(operand_of(plan, kernel.group, id));
  }

  void run(const KernelArguments& arguments) const noexcept final {
    prepare(arguments);
    const std::int64_t step = loop_.chunks_per_task();
    const auto tasks = static_cast<std::size_t>((loop_.chunks() + step - 1) / step);
    parallel_for(arguments.pool, tasks, [&](std::size_t task, std::size_t) {
      const std::int64_t begin = static_cast<std::int64_t>(task) * step;
      for (std::int64_t i = begin; i < std::min(begin + step, loop_.chunks()); ++i) {
        Chunk chunk = loop_.chunk(i);
        compute(arguments, chunk);
        if (epilogue_.empty()) continue;
        chunk.tile.data = y_at(arguments, chunk);
        epilogue_.apply(arguments, chunk.tile);
      }
    });
  }

 protected:
  /// Once a run, before the chunks.
  virtual void prepare(const KernelArguments&) const noexcept {}
  virtual void compute(const KernelArguments& arguments, const Chunk& chunk) const noexcept = 0;

  static float* y_at(const KernelArguments& arguments, const Chunk& chunk) {
    return static_cast<float*>(arguments.outputs[0]) + chunk.y;
  }
  [[nodiscard]] const float* x_at(const KernelArguments& arguments, const Chunk& chunk,
                                  std::size_t i) const {
    return static_cast<const float*>(operands_[i].data(arguments)) + chunk.x[i];
  }

  TileEpilogue epilogue_;
  Clamp clamp_;  // what the epilogue began with
  PointwiseLoop loop_;
  std::vector<Operand> operands_;
};

/// Clamps, where there is something to clamp to.
class ClampTile {
 public:
  explicit ClampTile(Clamp clamp) : clamp_(clamp), rows_(unary_rows(UnaryFn::kClip)) {}
  void operator()(RowShape shape, float* y, std::int64_t y_row) const noexcept {
    if (std::isinf(clamp_.lo) && std::isinf(clamp_.hi) && clamp_.lo < clamp_.hi) return;
    rows_(shape, y, y_row, y, y_row, clamp_.lo, clamp_.hi);
  }

 private:
  Clamp clamp_;
  UnaryRows rows_;
};

/// y[r][c] = x[r * row + c * col]
void copy_rows(RowShape shape, const float* x, std::int64_t row, std::int64_t col, float* y,
               std::int64_t y_row) {
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    for (std::int64_t c = 0; c < shape.cols; ++c) y[r * y_row + c] = x[r * row + c * col];
  }
}

/// Strides of all inputs of a node.
std::vector<Ints> input_strides(const Plan& plan, const Node& node) {
  std::vector<Ints> strides;
  const Shape& result = plan.graph.value(node.outputs[0]).shape;
  for (const ValueId id : node.inputs) strides.push_back(broadcast_strides(plan, id, result));
  return strides;
}

class UnaryKernel final : public PointwiseKernel {
 public:
  UnaryKernel(const Plan& plan, const KernelPlan& kernel, const Node& node)
      : PointwiseKernel(plan, kernel, node, input_strides(plan, node)),
        op_(*node.as<Unary>()),
        rows_(unary_rows(op_.fn)),
        then_(clamp_) {}

 private:
  void compute(const KernelArguments& arguments, const Chunk& chunk) const noexcept override {
    const float* x = x_at(arguments, chunk, 0);
    float* const y = y_at(arguments, chunk);
    std::int64_t x_row = chunk.x_row[0];
    if (chunk.x_col[0] != 1) {
      copy_rows(chunk.shape, x, x_row, chunk.x_col[0], y, chunk.y_row);
      x = y;
      x_row = chunk.y_row;
    }
    rows_(chunk.shape, x, x_row, y, chunk.y_row, static_cast<float>(op_.alpha),
          static_cast<float>(op_.beta));
    then_(chunk.shape, y, chunk.y_row);
  }

  Unary op_;
  UnaryRows rows_;
  ClampTile then_;
};

class BinaryKernel final : public PointwiseKernel {
 public:
  BinaryKernel(const Plan& plan, const KernelPlan& kernel, const Node& node)
      : PointwiseKernel(plan, kernel, node, input_strides(plan, node)),
        straight_(node.as<Binary>()->fn, false),
        swapped_(node.as<Binary>()->fn, true) {}

 private:
  void compute(const KernelArguments& arguments, const Chunk& chunk) const noexcept override {
    const float* const a = x_at(arguments, chunk, 0);
    const float* const b = x_at(arguments, chunk, 1);
    float* const y = y_at(arguments, chunk);
    const auto [a_row, b_row, unused_row] = chunk.x_row;
    const auto [a_col, b_col, unused_col] = chunk.x_col;
    if (a_col == 1) {
      straight_(chunk.shape, a, a_row, b, b_row, b_col, y, chunk.y_row, clamp_);
    } else if (b_col == 1) {
      swapped_(chunk.shape, b, b_row, a, a_row, a_col, y, chunk.y_row, clamp_);
    } else {
      copy_rows(chunk.shape, a, a_row, a_col, y, chunk.y_row);
      straight_(chunk.shape, y, chunk.y_row, b, b_row, b_col, y, chunk.y_row, clamp_);
    }
  }

  BinaryTile straight_;
  BinaryTile swapped_;
};

/// y = x * s[c] + t[c] with s = scale / sqrt(variance + epsilon), t = bias - mean * s. The
/// parameters may arrive at run time.
class BatchNormKernel final : public PointwiseKernel {
 public:
  BatchNormKernel(const Plan& plan, const KernelPlan& kernel, const Node& node)
      : PointwiseKernel(plan, kernel, node, strides(plan, node)),
        epsilon_(node.as<BatchNorm>()->epsilon),
        channels_(plan.graph.value(node.inputs[0]).shape[1]),
        times_(BinaryFn::kMul, false),
        plus_(BinaryFn::kAdd, false) {}

  [[nodiscard]] std::size_t workspace_bytes(std::size_t) const override {
    return static_cast<std::size_t>(channels_) * 2 * sizeof(float);
  }

 private:
  /// Of x, and of s and t.
  static std::vector<Ints> strides(const Plan& plan, const Node& node) {
    const Shape& shape = plan.graph.value(node.inputs[0]).shape;
    Ints channel(shape.size(), 0);
    channel[1] = 1;
    return {broadcast_strides(plan, node.inputs[0], shape), channel};
  }

  void prepare(const KernelArguments& arguments) const noexcept override {
    const auto parameter = [&](std::size_t i) {
      return static_cast<const float*>(operands_[i].data(arguments));
    };
    auto* const s = static_cast<float*>(arguments.workspace);
    float* const t = s + channels_;
    for (std::int64_t c = 0; c < channels_; ++c) {
      const double scale =
          parameter(1)[c] / std::sqrt(static_cast<double>(parameter(4)[c]) + epsilon_);
      s[c] = static_cast<float>(scale);
      t[c] = static_cast<float>(parameter(2)[c] - parameter(3)[c] * scale);
    }
  }

  void compute(const KernelArguments& arguments, const Chunk& chunk) const noexcept override {
    const float* const s = static_cast<const float*>(arguments.workspace) + chunk.x[1];
    float* const y = y_at(arguments, chunk);
    const float* x = x_at(arguments, chunk, 0);
    std::int64_t x_row = chunk.x_row[0];
    if (chunk.x_col[0] != 1) {
      copy_rows(chunk.shape, x, x_row, chunk.x_col[0], y, chunk.y_row);
      x = y;
      x_row = chunk.y_row;
    }
    times_(chunk.shape, x, x_row, s, chunk.x_row[1], chunk.x_col[1], y, chunk.y_row, Clamp{});
    plus_(chunk.shape, y, chunk.y_row, s + channels_, chunk.x_row[1], chunk.x_col[1], y,
          chunk.y_row, clamp_);
  }

  double epsilon_;
  std::int64_t channels_;
  BinaryTile times_;
  BinaryTile plus_;
};

/// Any dtype. An epilogue follows only where the result is fp32.
class TypedKernel final : public PointwiseKernel {
 public:
  TypedKernel(const Plan& plan, const KernelPlan& kernel, const Node& node)
      : PointwiseKernel(plan, kernel, node, input_strides(plan, node)),
        op_(node.op),
        function_(typed_chunk(plan.graph, node)),
        y_size_(static_cast<std::int64_t>(size_of(plan.graph.value(node.outputs[0]).dtype))),
        then_(clamp_) {
    for (const ValueId id : node.inputs) {
      x_sizes_.push_back(static_cast<std::int64_t>(size_of(plan.graph.value(id).dtype)));
    }
  }

 private:
  void compute(const KernelArguments& arguments, const Chunk& chunk) const noexcept override {
    TypedArguments typed;
    typed.op = &op_;
    typed.y = static_cast<char*>(arguments.outputs[0]) + chunk.y * y_size_;
    for (std::size_t i = 0; i < x_sizes_.size(); ++i) {
      typed.x[i] =
          static_cast<const char*>(operands_[i].data(arguments)) + chunk.x[i] * x_sizes_[i];
    }
    function_(chunk, typed);
    then_(chunk.shape, static_cast<float*>(typed.y), chunk.y_row);
  }

  Attributes op_;
  TypedChunk function_;
  std::int64_t y_size_;
  std::vector<std::int64_t> x_sizes_;
  ClampTile then_;
};

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.as<BatchNorm>() != nullptr) {
    if (all_float(graph, node)) return Support::yes();
    return Support::no("dtype", "batch normalisation of tensors that are not fp32");
  }
  if (typed_chunk(graph, node) != nullptr) return Support::yes();
  return Support::no("op", "not an element-by-element function of these dtypes");
}

/// Operations an element costs, in units of an addition.
double flops_per_element(const Graph& graph, const Node& node) {
  const bool rows = all_float(graph, node);
  const auto* unary = node.as<Unary>();
  if (unary != nullptr && rows) {
    switch (unary->fn) {
      case UnaryFn::kSigmoid:
      case UnaryFn::kSilu:
      case UnaryFn::kMish:
      case UnaryFn::kGelu:
      case UnaryFn::kGeluTanh:
      case UnaryFn::kTanh:
      case UnaryFn::kElu:
      case UnaryFn::kSelu:
      case UnaryFn::kCelu:
      case UnaryFn::kSoftplus:
      case UnaryFn::kErf:
      case UnaryFn::kExp:
      case UnaryFn::kLog:
      case UnaryFn::kSin:
      case UnaryFn::kCos:
        return 30;
      default:
        return 2;
    }
  }
  const auto* binary = node.as<Binary>();
  if (binary != nullptr && (binary->fn == BinaryFn::kPow || binary->fn == BinaryFn::kMod ||
                            binary->fn == BinaryFn::kFMod)) {
    return 300;
  }
  return rows ? 2 : 20;
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = anchor_of(graph, group);
  const auto elements = static_cast<double>(element_count(graph.value(node.outputs[0]).shape));
  const double steps = static_cast<double>(group.members.front().epilogue.steps.size()) * 4;
  return streaming_work(graph, group, elements * (flops_per_element(graph, node) + steps), 0.5);
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  const bool floats = all_float(plan.graph, node);
  const auto* unary = node.as<Unary>();
  const auto* binary = node.as<Binary>();
  if (node.as<BatchNorm>() != nullptr) return std::make_unique<BatchNormKernel>(plan, kernel, node);
  if (unary != nullptr && floats && has_rows(unary->fn))
    return std::make_unique<UnaryKernel>(plan, kernel, node);
  if (binary != nullptr && floats && has_rows(binary->fn))
    return std::make_unique<BinaryKernel>(plan, kernel, node);
  return std::make_unique<TypedKernel>(plan, kernel, node);
}

}  // namespace

Row pointwise() {
  KernelFamily family;
  family.name = "pointwise";
  family.backend = "cpu";
  family.layouts = LayoutRule::kSame;
  family.epilogue = true;
  family.pitched = true;
  family.in_place = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
