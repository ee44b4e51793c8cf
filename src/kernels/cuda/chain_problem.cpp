#include "kernels/cuda/chain_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "target/image_conv.hpp"

namespace braze::cuda {
namespace {

bool is_small_float(DType dtype) { return is_float(dtype) && dtype != DType::kFloat64; }

/// What an epilogue can do; see plan/group.cpp.
bool is_pointwise(const Node& node) {
  if (const auto* unary = node.as<Unary>())
    return unary->fn != UnaryFn::kNot && unary->fn != UnaryFn::kIsNaN;
  const auto* binary = node.as<Binary>();
  return binary != nullptr && binary->fn <= BinaryFn::kPRelu;
}

bool is_of_a_chain(const Node& node) {
  return may_be_image_conv(node.kind()) || node.kind() == OpKind::kPool || is_pointwise(node);
}

/// Walks the members in order.
class ChainReader {
 public:
  ChainReader(const Graph& graph, const Group& group, Support& why)
      : graph_(graph), group_(group), why_(why) {}

  std::optional<ChainProblem> read() {
    why_ = Support::no("", "");
    std::size_t convolutions = 0;
    for (const Group::Member& one : group_.members) {
      const Node& node = graph_.node(one.anchor);
      if (!is_of_a_chain(node)) return std::nullopt;
      if (may_be_image_conv(node.kind())) ++convolutions;
      results_.insert(one.result);
    }
    if (convolutions < 2) return std::nullopt;
    for (std::size_t i = 0; i < group_.members.size(); ++i) {
      ChainStage stage;
      stage.member = i;
      if (!read_member(stage)) return std::nullopt;
      made_[stage.result] = problem_.stages.size();
      problem_.stages.push_back(std::move(stage));
    }
    if (!problem_.last().stored) return std::nullopt;
    std::string reason;
    std::optional<GroupTiles> tiles = GroupTiles::of(graph_, group_, &reason);
    if (!tiles) return refuse("window", reason), std::nullopt;
    problem_.tiles = std::move(*tiles);
    return std::move(problem_);
  }

 private:
  const Value& value(ValueId id) const { return graph_.value(id); }
  const std::string& name(ValueId id) const { return value(id).name; }
  bool refuse(std::string rule, std::string reason) {
    why_ = Support::no(std::move(rule), std::move(reason));
    return false;
  }

  bool read_member(ChainStage& stage) {
    const Group::Member& member = group_.members[stage.member];
    const Node& node = graph_.node(member.anchor);
    stage.result = member.result;
    stage.stored = std::ranges::find(group_.outputs, member.result) != group_.outputs.end();
    if (node.output(1) != kNoValue)
      return refuse("indices",
                    fmt::format("the indices of the maxima of '{}' are asked for", node.id));
    const std::size_t image = image_of(node);
    if (!read_image(stage, node, node.inputs[image])) return false;
    const bool read = may_be_image_conv(node.kind()) ? read_conv(stage, node)
                      : node.kind() == OpKind::kPool ? read_pool(stage, node)
                                                     : read_pointwise(stage, node, image);
    return read && read_epilogue(stage, member);
  }

  /// The input that is the stage's image: of a sum of two, one that is as large as the result, and
  /// on chip if there is such a one.
  std::size_t image_of(const Node& node) const {
    if (node.kind() != OpKind::kBinary) return 0;
    const auto is_image = [&](std::size_t i) {
      return value(node.inputs[i]).shape == value(node.output()).shape &&
             !value(node.inputs[i]).is_constant();
    };
    const auto is_made = [&](std::size_t i) { return made_.contains(node.inputs[i]); };
    if (!is_image(0)) return 1;
    return is_image(1) && is_made(1) && !is_made(0) ? 1 : 0;
  }

  bool read_image(ChainStage& stage, const Node& node, ValueId id) {
    const Value& x = value(id);
    const Value& y = value(node.output());
    if (x.is_constant()) return false;
    for (const Value* image : {&x, &y}) {
      constexpr std::int64_t kMost = 1 << 30;
      const std::optional<ImageShape> shape = image_shape(image->shape);
      if (!shape)
        return refuse("rank", fmt::format("'{}' is of rank {}; chains are of images of rank 4, or "
                                          "of matrices",
                                          image->name, image->shape.size()));
      const std::int64_t pixels = shape->extent[0] * shape->extent[1];
      if (pixels > kMost || shape->channels > 1 << 20 || shape->n > 1 << 20)
        return refuse("extent",
                      fmt::format("'{}' is too large for 32-bit coordinates", image->name));
      if (shape->channels == 0 || pixels == 0) return false;
    }
    const ImageShape in = *image_shape(x.shape), out = *image_shape(y.shape);
    if (problem_.stages.empty()) {
      if (!is_small_float(x.dtype))
        return refuse("dtype", fmt::format("'{}' is {}; only float, float16 and bfloat16", x.name,
                                           to_string(x.dtype)));
      problem_.dtype = x.dtype;
      problem_.input = id;
      problem_.batch = in.n;
      problem_.channels = in.channels;
      problem_.extent = in.extent;
    }
    if (results_.contains(id) && !made_.contains(id)) return false;
    stage.reads = source_of(id);
    if (stage.reads.of == ChainSource::Of::kMemory)
      return refuse("other-image", fmt::format("'{}' reads '{}', the chain's image is '{}'",
                                               node.id, x.name, name(problem_.input)));
    if (x.dtype != problem_.dtype || y.dtype != problem_.dtype)
      return refuse("dtype",
                    fmt::format("'{}' makes {} of {} in a chain of {}", node.id, to_string(y.dtype),
                                to_string(x.dtype), to_string(problem_.dtype)));
    stage.channels = in.channels;
    stage.outputs = out.channels;
    stage.in = in.extent;
    stage.out = out.extent;
    return true;
  }

  ChainSource source_of(ValueId id) const {
    if (const auto found = made_.find(id); found != made_.end())
      return {ChainSource::Of::kStage, found->second};
    return {id == problem_.input ? ChainSource::Of::kInput : ChainSource::Of::kMemory, 0};
  }

  static void read_window(ChainStage& stage, const Window& window) {
    for (std::size_t axis = 0; axis < 2; ++axis) {
      stage.kernel[axis] = window.kernel[axis];
      stage.stride[axis] = window.strides[axis];
      stage.dilation[axis] = window.dilations[axis];
      stage.pad[axis] = window.pads_begin[axis];
    }
  }

  bool read_conv(ChainStage& stage, const Node& node) {
    const std::optional<ImageConv> conv = image_conv(graph_, node, &why_);
    if (!conv) return false;
    stage.weights = conv->weights;
    stage.bias = conv->bias;
    stage.output_stride = conv->output_stride;
    stage.channel_stride = conv->channel_stride;
    if (!value(stage.weights).is_constant())
      return refuse("weights", fmt::format("the filter of '{}' is not a constant", node.id));
    const bool depthwise =
        conv->groups > 1 && conv->groups == stage.channels && stage.outputs == stage.channels;
    if (conv->groups != 1 && !depthwise)
      return refuse("groups",
                    fmt::format("'{}' maps {} channels to {} in {} groups; chains take one group, "
                                "or one for each channel",
                                node.id, stage.channels, stage.outputs, conv->groups));
    stage.kind = depthwise ? StageKind::kDepthwise : StageKind::kDense;
    read_window(stage, conv->window);
    return true;
  }

  bool read_pool(ChainStage& stage, const Node& node) {
    const Pool& op = *node.as<Pool>();
    stage.kind = op.fn == PoolFn::kMax ? StageKind::kMaxPool : StageKind::kAveragePool;
    read_window(stage, op.window);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      stage.counted[axis] = {0, stage.in[axis]};
      if (op.count_include_pad)
        stage.counted[axis] = {-stage.pad[axis], stage.in[axis] + op.window.pads_end[axis]};
    }
    return true;
  }

  bool read_pointwise(ChainStage& stage, const Node& node, std::size_t image) {
    stage.kind = StageKind::kPointwise;
    if (value(node.inputs[image]).shape != value(node.output()).shape)
      return refuse("shape", fmt::format("'{}' broadcasts the image '{}'", node.id,
                                         name(node.inputs[image])));
    EpilogueStep step;
    step.node = group_.members[stage.member].anchor;
    if (const auto* unary = node.as<Unary>()) {
      step.unary = *unary;
    } else {
      step.binary = node.as<Binary>()->fn;
      step.swapped = image == 1;
      step.operand = node.inputs[1 - image];
      std::string why;
      const auto broadcast =
          classify_broadcast(value(step.operand).shape, value(node.output()).shape, &why);
      if (!broadcast || !is_small_float(value(step.operand).dtype))
        return refuse("broadcast", fmt::format("operand of '{}': {}", node.id,
                                               broadcast ? "is not float" : why));
      step.broadcast = *broadcast;
    }
    stage.epilogue.steps.push_back(step);
    return true;
  }

  bool read_epilogue(ChainStage& stage, const Group::Member& member) {
    std::vector<EpilogueStep>& steps = stage.epilogue.steps;
    steps.insert(steps.end(), member.epilogue.steps.begin(), member.epilogue.steps.end());
    const Value& result = value(stage.result);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const EpilogueStep& step = steps[i];
      if (step.operand == kNoValue || value(step.operand).is_constant()) continue;
      const std::string& operand = name(step.operand);
      const ChainSource source = source_of(step.operand);
      const bool on_chip = source.of == ChainSource::Of::kStage;
      if (results_.contains(step.operand) && !on_chip) return false;
      if (value(step.operand).shape == result.shape && step.broadcast == Broadcast::kFull) {
        stage.operands.push_back({i, step.operand, source});
      } else if (on_chip) {
        return refuse("broadcast", fmt::format("'{}' broadcasts '{}', which stays on chip",
                                               graph_.node(step.node).id, operand));
      } else if (step.broadcast == Broadcast::kFull) {
        return refuse("broadcast",
                      fmt::format("operand '{}' has shape {}, not the result's {}", operand,
                                  to_string(value(step.operand).shape), to_string(result.shape)));
      }
    }
    const bool last = stage.member + 1 == group_.members.size();
    if (result.dtype != problem_.dtype && (!last || !is_small_float(result.dtype)))
      return refuse("dtype", fmt::format("'{}' is {} in a chain of {}", result.name,
                                         to_string(result.dtype), to_string(problem_.dtype)));
    return true;
  }

  const Graph& graph_;
  const Group& group_;
  Support& why_;
  ChainProblem problem_;
  std::set<ValueId> results_;            // of all members
  std::map<ValueId, std::size_t> made_;  // by the stages so far
};

}  // namespace

double ChainStage::flops(double pixels) const {
  const double results = pixels * static_cast<double>(outputs);
  switch (kind) {
    case StageKind::kDense:
      return 2 * results * static_cast<double>(channels * taps());
    case StageKind::kDepthwise:
      return 2 * results * static_cast<double>(taps());
    case StageKind::kMaxPool:
    case StageKind::kAveragePool:
      return results * static_cast<double>(taps());
    case StageKind::kPointwise:
      return results;
  }
  return 0;
}

std::vector<std::size_t> ChainProblem::readers(std::size_t stage) const {
  const ChainSource source{ChainSource::Of::kStage, stage};
  std::vector<std::size_t> list;
  for (std::size_t i = stage + 1; i < stages.size(); ++i) {
    const bool operand = std::ranges::any_of(
        stages[i].operands, [&](const ChainOperand& one) { return one.source == source; });
    if (stages[i].reads == source || operand) list.push_back(i);
  }
  return list;
}

std::optional<ChainProblem> read_chain(const Graph& graph, const Group& group, Support& why) {
  return ChainReader(graph, group, why).read();
}

ChainProblem read_chain(const Graph& graph, const Group& group) {
  Support why;
  std::optional<ChainProblem> problem = read_chain(graph, group, why);
  ensure(problem.has_value(), "a planned group has its family's shape");
  return std::move(*problem);
}

Group::Member member_of(const Group& group, const ChainStage& stage) {
  return {group.members[stage.member].anchor, stage.epilogue, stage.result};
}

}  // namespace braze::cuda
