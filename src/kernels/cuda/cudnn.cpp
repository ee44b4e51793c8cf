// Convolutions that cuDNN runs, each with its epilogue as one operation graph: what it takes, and
// the problem as exec/cuda/cudnn_session puts it. Which engine runs it is found on the device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "graph/shape.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"
#include "plan/stages.hpp"

namespace braze::cuda {
namespace {

/// As our own families, which run what cuDNN has no engine for.
constexpr int kMostSteps = device::kMaxValues / 2;
constexpr int kMostOperands = device::kMaxOperands - 1;
constexpr std::int64_t kAlignment = 16;  // what cuDNN's engines load at once, bytes

// ---- What it takes

const Window* window_of(const Node& node) {
  if (const auto* conv = node.as<Conv>()) return &conv->window;
  if (const auto* transposed = node.as<ConvTranspose>()) return &transposed->window;
  return nullptr;
}

bool is_taken(DType dtype, const Device& device) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 ||
         (dtype == DType::kBFloat16 && device.sm >= 80);
}

Support supports(const Graph& graph, const Node& node, const Device& device) {
  if (node.kind() == OpKind::kQLinearConv)
    return Support::no("cudnn-operator", "cuDNN is asked for float convolutions only");
  const Window* window = window_of(node);
  if (window == nullptr) return Support::no("operator", "");
  const Value& x = graph.value(node.input(0));
  const Value& w = graph.value(node.input(1));
  const Value& y = graph.value(node.output());
  if (!is_taken(x.dtype, device) || w.dtype != x.dtype)
    return Support::no("cudnn-dtype",
                       fmt::format("'{}' is {} and '{}' {}; cuDNN takes float, float16 and, from "
                                   "sm_80 on, bfloat16",
                                   x.name, to_string(x.dtype), w.name, to_string(w.dtype)));
  if (!w.is_constant())
    return Support::no("cudnn-weights",
                       fmt::format("'{}' is no constant: it cannot be packed for cuDNN", w.name));
  if (x.shape.size() < 3 || x.shape.size() > 5)
    return Support::no(
        "cudnn-rank", fmt::format("input {}; cuDNN takes 1 to 3 spatial axes", to_string(x.shape)));
  if (element_count(x.shape) == 0 || element_count(y.shape) == 0 || element_count(w.shape) == 0)
    return Support::no("cudnn-empty", "cuDNN takes no tensor without elements");
  const auto negative = [](std::int64_t pad) { return pad < 0; };
  if (std::ranges::any_of(window->pads_begin, negative) ||
      std::ranges::any_of(window->pads_end, negative))
    return Support::no("cudnn-pads", "cuDNN takes no negative padding");
  return Support::yes();
}

/// The unary step as cuDNN has it; nothing if it has it not.
std::optional<CudnnStep> unary_step(const Unary& op) {
  CudnnStep step;
  switch (op.fn) {
    case UnaryFn::kRelu:
      step.mode = PointwiseMode::kRelu;
      return step;
    case UnaryFn::kLeakyRelu:
      step.mode = PointwiseMode::kRelu;
      step.slope = op.alpha;
      return step;
    case UnaryFn::kClip:
      if (!std::isfinite(op.alpha) || !(op.alpha <= op.beta)) return std::nullopt;
      step.mode = PointwiseMode::kRelu;
      step.lower = op.alpha;
      if (std::isfinite(op.beta)) step.upper = op.beta;
      return step;
    case UnaryFn::kElu:
      step.mode = PointwiseMode::kElu;
      step.alpha = op.alpha;
      return step;
    case UnaryFn::kSigmoid:
      step.mode = PointwiseMode::kSigmoid;
      return step;
    case UnaryFn::kSilu:
      step.mode = PointwiseMode::kSwish;
      return step;
    case UnaryFn::kTanh:
      step.mode = PointwiseMode::kTanh;
      return step;
    case UnaryFn::kGelu:
      step.mode = PointwiseMode::kGelu;
      return step;
    case UnaryFn::kGeluTanh:
      step.mode = PointwiseMode::kGeluTanh;
      return step;
    case UnaryFn::kSoftplus:
      step.mode = PointwiseMode::kSoftplus;
      return step;
    default:
      return std::nullopt;
  }
}

/// Of acc fn operand; nothing if cuDNN has it not, or not that way around.
std::optional<PointwiseMode> binary_mode(const EpilogueStep& step) {
  switch (step.binary) {
    case BinaryFn::kAdd:
      return PointwiseMode::kAdd;
    case BinaryFn::kMul:
      return PointwiseMode::kMul;
    case BinaryFn::kSub:
      return step.swapped ? std::nullopt : std::optional(PointwiseMode::kSub);
    case BinaryFn::kDiv:
      return step.swapped ? std::nullopt : std::optional(PointwiseMode::kDiv);
    default:
      return std::nullopt;
  }
}

/// Does an operand as wide as the result lie in memory as the result does, or will when packed?
bool lies_like_result(const Value& operand, const Value& result) {
  return operand.is_constant() || is_layout_neutral(result) ||
         operand.shape.size() == result.shape.size();
}

Support takes_step(const Graph& graph, const Group::Member& member, const EpilogueStep& step,
                   const Device& device) {
  constexpr const char* kRule = "cudnn-epilogue";
  if (step.cast) return Support::no(kRule, "cuDNN is not asked to convert what it stores");
  if (step.unary) {
    if (unary_step(*step.unary)) return Support::yes();
    if (step.unary->fn == UnaryFn::kClip)
      return Support::no(kRule, fmt::format("cuDNN clips between finite lower and higher upper "
                                            "bounds, not between {} and {}",
                                            step.unary->alpha, step.unary->beta));
    return Support::no(kRule, fmt::format("cuDNN is not asked for {}", to_string(step.unary->fn)));
  }
  if (!binary_mode(step))
    return Support::no(kRule, fmt::format("cuDNN is not asked for {}{}",
                                          step.swapped ? "reversed " : "", to_string(step.binary)));
  const Value& operand = graph.value(step.operand);
  if (!is_taken(operand.dtype, device))
    return Support::no(kRule,
                       fmt::format("operand '{}' is {}", operand.name, to_string(operand.dtype)));
  // cuDNN 9.14 takes [n, c, 1, 1] beside [n, c, h, w], but its results are wrong in fp16.
  if (step.broadcast == Broadcast::kImage)
    return Support::no(kRule, fmt::format("operand '{}' {} varies by image but not by pixel",
                                          operand.name, to_string(operand.shape)));
  if (step.broadcast == Broadcast::kFull && !lies_like_result(operand, graph.value(member.result)))
    return Support::no(kRule, fmt::format("operand '{}' {} lies otherwise than the result",
                                          operand.name, to_string(operand.shape)));
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = cpu::anchor_of(graph, group);
  const bool transposed = node.as<ConvTranspose>() != nullptr;
  const Shape& w = graph.value(node.input(1)).shape;
  const Shape& positions = graph.value(transposed ? node.input(0) : node.output()).shape;
  const double products = static_cast<double>(element_count(w)) / static_cast<double>(w[0]);
  return cpu::streaming_work(graph, group,
                             2 * products * static_cast<double>(element_count(positions)), 0.5);
}

// ---- The problem

/// [n, c, w] becomes [n, c, 1, w].
Ints with_height(Ints extents) {
  if (extents.size() == 3) extents.insert(extents.begin() + 2, 1);
  return extents;
}
/// The same for what there is one of for each spatial axis.
Ints with_height(Ints axes, std::int64_t value) {
  if (axes.size() == 1) axes.insert(axes.begin(), value);
  return axes;
}

/// Strides of [n, c, spatial...] that lies [n, spatial..., c] with `pitch` elements to a pixel.
Ints channels_last(const Ints& extents, std::int64_t pitch) {
  Ints strides(extents.size(), 1);
  std::int64_t stride = pitch;
  for (std::size_t axis = extents.size(); axis-- > 2;) {
    strides[axis] = stride;
    stride *= extents[axis];
  }
  strides[0] = stride;
  return strides;
}

/// A constant [a, b, spatial...] as [a, spatial..., b].
Tensor to_channels_last(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const std::int64_t pixels =
      std::accumulate(shape.begin() + 2, shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::vector<float> from = load<float>(tensor);
  std::vector<float> to(from.size());
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t a = 0; a < shape[0]; ++a) {
    for (std::int64_t b = 0; b < shape[1]; ++b) {
      for (std::int64_t p = 0; p < pixels; ++p)
        to[at((a * pixels + p) * shape[1] + b)] = from[at((a * shape[1] + b) * pixels + p)];
    }
  }
  return make_tensor(tensor.dtype(), shape, to);
}

Address add_tensor(Kernel& kernel, const Tensor& tensor) {
  const auto* begin = static_cast<const std::byte*>(tensor.data());
  return add_constant(kernel, {begin, begin + tensor.bytes()});
}

class ProblemBuilder {
 public:
  ProblemBuilder(const Plan& plan, const KernelPlan& kernel, Kernel& to)
      : plan_(plan), group_(kernel.group), member_(kernel.group.members.front()), to_(to) {}

  CudnnProblem build() {
    const Node& node = cpu::anchor_of(plan_.graph, group_);
    const Window& window = *window_of(node);
    CudnnProblem problem;
    problem.transposed = node.as<ConvTranspose>() != nullptr;
    problem.tf32 = plan_.device.tf32;
    problem.pads_begin = with_height(window.pads_begin, 0);
    problem.pads_end = with_height(window.pads_end, 0);
    problem.strides = with_height(window.strides, 1);
    problem.dilations = with_height(window.dilations, 1);
    problem.x = image(node.input(0), address_of(plan_, group_, node.input(0), to_));
    problem.w = filter(node.input(1));
    problem.y = image(member_.result, {Address::Of::kOutput, 0, 0});
    result_ = problem.y.extents;
    if (node.input(2) != kNoValue) problem.steps.push_back(bias(node.input(2)));
    for (const EpilogueStep& step : member_.epilogue.steps) problem.steps.push_back(of(step));
    residual_first(problem.steps);
    return problem;
  }

 private:
  const Value& value(ValueId id) const { return plan_.graph.value(id); }

  /// An image that lies channels-last, or the same in both layouts.
  CudnnTensor image(ValueId id, const Address& address) const {
    const Placement& placement = plan_.placements[static_cast<std::size_t>(id)];
    const Ints extents = with_height(value(id).shape);
    const bool last = placement.layout == Layout::kChannelsLast;
    ensure(value(id).is_constant() || last || is_layout_neutral(value(id)),
           "cuDNN's images are channels-last");
    const std::int64_t alignment =
        value(id).is_constant() ? kAlignment : std::gcd(kAlignment, placement.offset);
    return {value(id).dtype, extents, channels_last(extents, last ? placement.pitch : extents[1]),
            alignment, address};
  }

  CudnnTensor filter(ValueId id) {
    const Ints extents = with_height(value(id).shape);
    return {value(id).dtype, extents, channels_last(extents, extents[1]), kAlignment,
            add_tensor(to_, to_channels_last(*value(id).constant))};
  }

  CudnnStep bias(ValueId id) {
    CudnnStep step;
    step.operand = varying(id, {1});
    return step;
  }

  /// An operand that varies along some axes of the result only, densely: it lies in this order in
  /// both layouts, for no two of its axes are channels and pixels.
  CudnnTensor varying(ValueId id, const std::vector<std::size_t>& axes) {
    CudnnTensor tensor{value(id).dtype,
                       Ints(result_.size(), 1),
                       {},
                       kAlignment,
                       address_of(plan_, group_, id, to_)};
    for (const std::size_t axis : axes) tensor.extents[axis] = result_[axis];
    tensor.strides = channels_last(tensor.extents, tensor.extents[1]);
    if (!value(id).is_constant()) {
      const Placement& placement = plan_.placements[static_cast<std::size_t>(id)];
      tensor.alignment = std::gcd(kAlignment, placement.offset);
      if (placement.layout == Layout::kChannelsLast)
        tensor.strides = channels_last(tensor.extents, placement.pitch);
    }
    return tensor;
  }

  CudnnTensor operand(const EpilogueStep& step) {
    const ValueId id = step.operand;
    switch (step.broadcast) {
      case Broadcast::kScalar:
        return varying(id, {});
      case Broadcast::kChannel:
        return varying(id, {1});
      case Broadcast::kImage:
        fail(ErrorCode::kInternal,
             "internal error: '{}' varies by image, which takes_step() refuses", value(id).name);
      case Broadcast::kPixel: {
        std::vector<std::size_t> axes(result_.size() - 2);
        std::iota(axes.begin(), axes.end(), 2);
        if (element_count(value(id).shape) != std::accumulate(result_.begin() + 2, result_.end(),
                                                              std::int64_t{1}, std::multiplies<>()))
          axes.push_back(0);
        return varying(id, axes);
      }
      case Broadcast::kFull:
        break;
    }
    CudnnTensor full{value(id).dtype, result_, channels_last(result_, result_[1]), kAlignment, {}};
    if (!value(id).is_constant()) {
      const Placement& placement = plan_.placements[static_cast<std::size_t>(id)];
      full.address = address_of(plan_, group_, id, to_);
      full.alignment = std::gcd(kAlignment, placement.offset);
      if (placement.layout == Layout::kChannelsLast)
        full.strides = channels_last(result_, placement.pitch);
    } else {
      Shape shape = value(member_.result).shape;
      full.address = add_tensor(to_, to_channels_last(value(id).constant->reshaped(shape)));
    }
    return full;
  }

  CudnnStep of(const EpilogueStep& step) {
    if (step.unary) {
      const std::optional<CudnnStep> unary = unary_step(*step.unary);
      ensure(unary.has_value(), "cuDNN has this activation");
      return *unary;
    }
    const std::optional<PointwiseMode> mode = binary_mode(step);
    ensure(mode.has_value(), "cuDNN has this operation");
    CudnnStep result;
    result.mode = *mode;
    result.operand = operand(step);
    return result;
  }

  /// The engines that are compiled into cuDNN know conv + residual + bias + relu, in this order.
  /// Additions commute but for the rounding of fp32.
  void residual_first(std::vector<CudnnStep>& steps) const {
    const auto end = std::ranges::find_if_not(
        steps, [](const CudnnStep& step) { return step.mode == PointwiseMode::kAdd; });
    const auto residual = std::find_if(steps.begin(), end, [this](const CudnnStep& step) {
      return step.operand->extents == result_;
    });
    if (residual != end) std::rotate(steps.begin(), residual, residual + 1);
  }

  const Plan& plan_;
  const Group& group_;
  const Group::Member& member_;
  Kernel& to_;
  Ints result_;  // extents
};

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  Kernel result;
  result.cudnn = ProblemBuilder(plan, kernel, result).build();
  return result;
}

/// Does every image of the group lie channels-last?
Support layouts_fit(const Plan& plan, const Group& group) {
  for (const std::vector<ValueId>* ids : {&group.inputs, &group.outputs}) {
    for (const ValueId id : *ids) {
      const Value& value = plan.graph.value(id);
      if (!is_image(value) || value.is_constant() || is_layout_neutral(value)) continue;
      const bool result_like =
          value.shape.size() == plan.graph.value(group.outputs[0]).shape.size();
      const bool last =
          plan.placements[static_cast<std::size_t>(id)].layout == Layout::kChannelsLast;
      if (last != result_like)
        return Support::no(
            "cudnn-layout",
            fmt::format("'{}' is {}; cuDNN is asked for {}", value.name,
                        last ? "channels-last" : "in model layout",
                        result_like ? "channels-last images" : "such an operand otherwise"));
    }
  }
  return Support::yes();
}

}  // namespace

Row cudnn() {
  KernelFamily family;
  family.name = "cudnn";
  family.backend = "cudnn";
  family.layouts = LayoutRule::kChannelsLast;
  family.epilogue = true;
  family.most_steps = kMostSteps;
  family.most_operands = kMostOperands;
  family.pitched = true;
  family.wanted = true;
  family.supports = supports;
  family.takes_step = takes_step;
  family.work = work;
  return {family, build};
}

Support cudnn_takes(const Plan& plan, const Group& group) {
  if (!group.single())
    return Support::no("cudnn-group", fmt::format("cuDNN is asked for one convolution, not {}",
                                                  group.members.size()));
  if (!group.casts.empty())
    return Support::no("cudnn-epilogue", "cuDNN is not asked to convert what it loads");
  const Node& node = plan.graph.node(group.members[0].anchor);
  if (Support anchor = supports(plan.graph, node, plan.device); !anchor.ok) return anchor;
  Group::Member member;
  member.anchor = group.members[0].anchor;
  member.result = node.output();
  const std::vector<EpilogueStep>& steps = group.members[0].epilogue.steps;
  if (std::ssize(steps) > kMostSteps)
    return Support::no("cudnn-epilogue", fmt::format("an epilogue of {} steps; cuDNN is asked for "
                                                     "up to {}",
                                                     steps.size(), kMostSteps));
  for (const EpilogueStep& step : steps) {
    if (Support taken = takes_step(plan.graph, member, step, plan.device); !taken.ok) return taken;
    member.epilogue.steps.push_back(step);
    member.result = plan.graph.node(step.node).output();
  }
  return plan.placements.empty() ? Support::yes() : layouts_fit(plan, group);
}

}  // namespace braze::cuda
