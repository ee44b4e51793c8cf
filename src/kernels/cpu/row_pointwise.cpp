// Unary and Binary in fp32 as members of a group that runs row by row: the first operand is copied,
// and the node is the first step of its own epilogue.
#include <algorithm>

#include "base/error.hpp"
#include "kernels/cpu/chain_rows.hpp"
#include "kernels/cpu/epilogue.hpp"
#include "kernels/cpu/strided_copy.hpp"

namespace braze::cpu {
namespace {

/// The node as a step on the operand that has the result's shape; nullopt if there is none.
struct Step {
  ValueId copied = kNoValue;
  EpilogueStep step;
};
std::optional<Step> step_of(const Graph& graph, const Node& node) {
  const Shape& shape = graph.value(node.output()).shape;
  Step step;
  step.step.node = graph.producer(node.output());
  if (const auto* unary = node.as<Unary>()) {
    step.copied = node.inputs[0];
    step.step.unary = *unary;
    return step;
  }
  const auto* binary = node.as<Binary>();
  if (binary == nullptr) return std::nullopt;
  const auto is_full = [&](ValueId id) {
    return graph.value(id).shape == shape && !graph.value(id).is_constant();
  };
  step.step.swapped = !is_full(node.inputs[0]);
  step.copied = node.inputs[step.step.swapped ? 1 : 0];
  step.step.operand = node.inputs[step.step.swapped ? 0 : 1];
  step.step.binary = binary->fn;
  const std::optional<Broadcast> broadcast =
      classify_broadcast(graph.value(step.step.operand).shape, shape, nullptr);
  if (!is_full(step.copied) || !broadcast) return std::nullopt;
  step.step.broadcast = *broadcast;
  return step;
}

Group::Member with_first_step(const Graph& graph, const KernelPlan& part) {
  Group::Member member = part.group.members.front();
  const std::optional<Step> step = step_of(graph, graph.node(member.anchor));
  ensure(step.has_value(), "an elementwise member is a step");
  member.epilogue.steps.insert(member.epilogue.steps.begin(), step->step);
  return member;
}

class RowPointwise final : public RowKernel {
 public:
  RowPointwise(const Plan& plan, const KernelPlan& part)
      : epilogue_(plan, part, with_first_step(plan.graph, part)) {
    const Node& node = anchor_of(plan.graph, part.group);
    const ValueId copied = step_of(plan.graph, node)->copied;
    x_ = image_of(plan, copied);
    y_ = image_of(plan, part.group.outputs[0]);
    input_ = operand_of(plan, part.group, copied).input;
    constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
    row_ = {kFloat,
            {{y_.w, x_.stride_w * kFloat, y_.stride_w * kFloat},
             {y_.c, x_.stride_c * kFloat, y_.stride_c * kFloat}}};
  }

  void run(const KernelArguments& arguments) const noexcept override {
    for (std::int64_t n = 0; n < y_.n; ++n) run_rows(arguments, n, 0, y_.h);
  }

  void run_rows(const KernelArguments& arguments, std::int64_t n, std::int64_t begin,
                std::int64_t end) const noexcept override {
    const auto* const x =
        static_cast<const float*>(arguments.inputs[static_cast<std::size_t>(input_)]) +
        n * x_.stride_n;
    auto* const y = static_cast<float*>(arguments.outputs[0]) + n * y_.stride_n;
    Tile tile;
    tile.n = n;
    tile.pixels = y_.w;
    tile.stride_pixel = y_.stride_w;
    tile.channels = y_.c;
    for (std::int64_t row = begin; row < end; ++row) {
      tile.data = y + row * y_.stride_h;
      tile.pixel = row * y_.w;
      for (std::int64_t task = 0; task < row_.tasks(); ++task)
        row_.run_task(task, x + row * x_.stride_h, tile.data);
      epilogue_.apply(arguments, tile);
    }
  }

 private:
  TileEpilogue epilogue_;
  Image x_, y_;
  StridedCopy row_;
  int input_ = 0;
};

}  // namespace

bool is_row_pointwise(const Graph& graph, const Node& node) {
  if (!std::ranges::all_of(node.inputs, [&](ValueId id) {
        return id != kNoValue && graph.value(id).dtype == DType::kFloat32;
      }))
    return false;
  if (graph.value(node.output()).dtype != DType::kFloat32) return false;
  const std::optional<Step> step = step_of(graph, node);
  if (!step) return false;
  return step->step.unary ? unary_rows(step->step.unary->fn) != nullptr
                          : BinaryTile(step->step.binary, step->step.swapped).defined();
}

std::unique_ptr<RowKernel> row_pointwise(const Plan& plan, const KernelPlan& part) {
  return std::make_unique<RowPointwise>(plan, part);
}

}  // namespace braze::cpu
