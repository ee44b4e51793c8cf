#include "kernels/cuda/fold_pixels.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "graph/elements.hpp"

namespace braze::cuda {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

Shape folded(Shape shape, std::int64_t times) {
  shape[1] *= times;
  shape[3] /= times;
  return shape;
}

/// The tensor's elements, `times` over.
Tensor repeated(const Tensor& tensor, std::int64_t times, const Shape& shape) {
  const std::vector<float> once = load<float>(tensor);
  std::vector<float> all;
  for (std::int64_t i = 0; i < times; ++i) all.insert(all.end(), once.begin(), once.end());
  return make_tensor(tensor.dtype(), shape, all);
}

/// A window along columns, of folded pixels: its first tap's place, and how many there are.
struct Columns {
  std::int64_t first, taps;
};
Columns columns_of(const Window& window, std::int64_t times) {
  const std::int64_t kernel = window.kernel[1], pad = window.pads_begin[1];
  const std::int64_t first = floor_div(-pad, times);
  return {first, floor_div(times + kernel - 2 - pad, times) - first + 1};
}

Tensor folded_weights(const Tensor& weights, const Window& window, std::int64_t times,
                      bool with_values) {
  const Shape& w = weights.shape();
  const Columns columns = columns_of(window, times);
  const Shape shape = {times * w[0], times * w[1], w[2], columns.taps};
  if (!with_values) return Tensor::make(weights.dtype(), shape);
  const std::vector<float> from = load<float>(weights);
  std::vector<float> to(static_cast<std::size_t>(element_count(shape)), 0.0F);
  std::size_t at = 0;
  for (std::int64_t output = 0; output < shape[0]; ++output) {
    for (std::int64_t input = 0; input < shape[1]; ++input) {
      const std::int64_t k = output % w[0], j = output / w[0], c = input % w[1], i = input / w[1];
      for (std::int64_t y = 0; y < w[2]; ++y) {
        for (std::int64_t x = 0; x < columns.taps; ++x, ++at) {
          const std::int64_t tap = times * (x + columns.first) + i - j + window.pads_begin[1];
          if (tap >= 0 && tap < w[3])
            to[at] = from[static_cast<std::size_t>(((k * w[1] + c) * w[2] + y) * w[3] + tap)];
        }
      }
    }
  }
  return make_tensor(weights.dtype(), shape, to);
}

bool is_foldable(const Graph& graph, const Group::Member& member) {
  const Node& node = graph.node(member.anchor);
  const auto* conv = node.as<Conv>();
  const Shape& x = graph.value(node.inputs[0]).shape;
  if (conv == nullptr || conv->group != 1 || x.size() != 4) return false;
  if (conv->window.strides[1] != 1 || conv->window.dilations[1] != 1) return false;
  if (!graph.value(node.inputs[1]).is_constant()) return false;
  if (node.input(2) != kNoValue && !graph.value(node.input(2)).is_constant()) return false;
  return std::ranges::all_of(member.epilogue.steps, [&](const EpilogueStep& step) {
    if (step.cast) return false;
    if (step.unary) return true;
    const bool constant = graph.value(step.operand).is_constant();
    switch (step.broadcast) {
      case Broadcast::kScalar:
      case Broadcast::kChannel:
        return constant;
      case Broadcast::kFull:
        return !constant && graph.value(step.operand).shape == graph.value(member.result).shape;
      default:
        return false;
    }
  });
}

/// Makes a group's folded copy.
class Folder {
 public:
  Folder(const Graph& graph, const Group& group, std::int64_t times, bool with_weights)
      : graph_(graph), group_(group), times_(times), with_weights_(with_weights) {}

  FoldedGroup fold() {
    for (const ValueId id : group_.inputs) {
      result_.group.inputs.push_back(image(id));
      result_.graph.inputs.push_back(image(id));
    }
    for (const Group::Member& member : group_.members) add(member);
    for (const ValueId id : group_.outputs) {
      result_.group.outputs.push_back(image(id));
      result_.graph.outputs.push_back({graph_.value(id).name, image(id)});
    }
    return std::move(result_);
  }

 private:
  ValueId image(ValueId id) {
    if (const auto known = ids_.find(id); known != ids_.end()) return known->second;
    const Value& value = graph_.value(id);
    return keep(id, result_.graph.add_value(value.name, value.dtype, folded(value.shape, times_)));
  }
  ValueId constant(ValueId id, Tensor tensor) {
    return keep(id, result_.graph.add_constant(graph_.value(id).name, std::move(tensor)));
  }
  ValueId keep(ValueId id, ValueId copy) {
    result_.from.resize(static_cast<std::size_t>(result_.graph.value_count()), kNoValue);
    result_.from[static_cast<std::size_t>(copy)] = id;
    ids_[id] = copy;
    return copy;
  }

  void add(const Group::Member& member) {
    const Node& node = graph_.node(member.anchor);
    Conv conv = *node.as<Conv>();
    const Tensor& weights = *graph_.value(node.inputs[1]).constant;
    const Columns columns = columns_of(conv.window, times_);
    std::vector<ValueId> inputs = {
        image(node.inputs[0]),
        constant(node.inputs[1], folded_weights(weights, conv.window, times_, with_weights_))};
    if (const ValueId bias = node.input(2); bias != kNoValue) {
      const Tensor& tensor = *graph_.value(bias).constant;
      inputs.push_back(constant(bias, repeated(tensor, times_, {times_ * tensor.count()})));
    }
    const std::int64_t in = graph_.value(node.inputs[0]).shape[3] / times_;
    const std::int64_t out = graph_.value(node.output()).shape[3] / times_;
    conv.window.kernel[1] = columns.taps;
    conv.window.pads_begin[1] = -columns.first;
    conv.window.pads_end[1] = out - in + columns.first + columns.taps - 1;
    Group::Member copy;
    ValueId at = image(node.output());
    copy.anchor = result_.graph.add_node(conv, inputs, {at}, node.id, node.origins);
    for (const EpilogueStep& step : member.epilogue.steps) at = add(copy, step, at);
    copy.result = at;
    result_.group.members.push_back(std::move(copy));
  }

  ValueId add(Group::Member& member, EpilogueStep step, ValueId at) {
    const Node& node = graph_.node(step.node);
    const ValueId to = image(node.output());
    if (step.unary) {
      step.node = result_.graph.add_node(*step.unary, {at}, {to}, node.id, node.origins);
    } else {
      step.operand = operand(step);
      std::vector<ValueId> inputs = {at, step.operand};
      if (step.swapped) std::swap(inputs[0], inputs[1]);
      step.node = result_.graph.add_node(Binary{step.binary}, inputs, {to}, node.id, node.origins);
    }
    member.epilogue.steps.push_back(step);
    return to;
  }

  ValueId operand(const EpilogueStep& step) {
    if (step.broadcast == Broadcast::kFull) return image(step.operand);
    const Tensor& tensor = *graph_.value(step.operand).constant;
    if (step.broadcast == Broadcast::kScalar) return constant(step.operand, tensor);
    const std::int64_t channels = times_ * tensor.count();
    return constant(step.operand, repeated(tensor, times_, {channels, 1, 1}));
  }

  const Graph& graph_;
  const Group& group_;
  std::int64_t times_;
  bool with_weights_;
  FoldedGroup result_;
  std::map<ValueId, ValueId> ids_;
};

}  // namespace

std::int64_t foldable_pixels(const Graph& graph, const Group& group, std::int64_t channels) {
  if (group.outputs.size() != 1 || !group.casts.empty()) return 1;
  std::vector<ValueId> images = group.inputs;
  for (const Group::Member& member : group.members) {
    if (!is_foldable(graph, member)) return 1;
    images.push_back(member.result);
  }
  std::int64_t most = 1, times = channels;
  for (const ValueId id : images) {
    const Shape& shape = graph.value(id).shape;
    if (shape.size() != 4) return 1;
    most = std::max(most, shape[1]);
    while (times > 1 && shape[3] % times != 0) times /= 2;
  }
  while (times > 1 && times * most > channels) times /= 2;
  return times;
}

FoldedGroup fold_pixels(const Graph& graph, const Group& group, std::int64_t times,
                        bool with_weights) {
  return Folder(graph, group, times, with_weights).fold();
}

std::optional<FoldedKernel> fold_kernel(const Plan& plan, const KernelPlan& kernel,
                                        std::int64_t times) {
  FoldedGroup folded = fold_pixels(plan.graph, kernel.group, times, true);
  FoldedKernel result;
  result.plan.device = plan.device;
  result.plan.options = plan.options;
  result.plan.placements.resize(static_cast<std::size_t>(folded.graph.value_count()));
  for (ValueId id = 0; id < folded.graph.value_count(); ++id) {
    const ValueId from = folded.from[static_cast<std::size_t>(id)];
    const Value& value = folded.graph.value(id);
    if (value.is_constant()) continue;
    Placement& placement = result.plan.placements[static_cast<std::size_t>(id)];
    placement = plan.placements[static_cast<std::size_t>(from)];
    if (placement.memory == Memory::kNone) continue;  // on chip
    if (placement.layout != Layout::kChannelsLast || placement.pitch * times != value.shape[1])
      return std::nullopt;
    placement.pitch *= times;
  }
  result.kernel = kernel;
  result.kernel.group = std::move(folded.group);
  result.plan.graph = std::move(folded.graph);
  return result;
}

}  // namespace braze::cuda
