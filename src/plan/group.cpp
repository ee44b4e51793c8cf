// Which nodes share a kernel. One member per group for now: an anchor and its epilogue.
//
//   1. every anchor whose family takes an epilogue grows over the pointwise nodes that follow it,
//   last anchor first, so that of two
//      convolutions that meet in an Add the later one takes it and finds the other's result ready;
//   2. pointwise nodes that are left become anchors and grow the same way;
//   3. everything else is a kernel of its own.
// A pointwise node that follows but may not join is recorded with the rule it breaks.
#include <algorithm>
#include <map>
#include <optional>
#include <queue>

#include "base/error.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

const KernelFamily kView{.name = "view", .backend = "any", .layouts = LayoutRule::kModelOnly};

bool is_pointwise(const Node& node) {
  return node.kind() == OpKind::kUnary || node.kind() == OpKind::kBinary ||
         node.kind() == OpKind::kCast;
}

bool is_step(const Node& node) {
  if (const auto* unary = node.as<Unary>())
    return unary->fn != UnaryFn::kNot && unary->fn != UnaryFn::kIsNaN;
  if (const auto* binary = node.as<Binary>()) return binary->fn <= BinaryFn::kPRelu;
  return false;
}

/// The float types that kernels convert between while they load and store.
bool is_converted(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}
bool is_float_cast(const Graph& graph, const Node& node) {
  return node.kind() == OpKind::kCast && is_converted(graph.value(node.inputs[0]).dtype) &&
         is_converted(graph.value(node.output()).dtype);
}

/// May an epilogue on this device have a value of this type as its accumulator or operand?
bool computes_in(const Device& device, DType dtype) {
  return device.kind == DeviceKind::kCuda ? is_converted(dtype) : dtype == DType::kFloat32;
}

std::string lists(const std::vector<NodeId>& nodes, const Graph& graph) {
  std::string text;
  for (const NodeId id : nodes)
    text += fmt::format("{}'{}'", text.empty() ? "" : ", ", graph.node(id).id);
  return text;
}

/// Grows groups over pointwise nodes and keeps track of who took what.
class Former {
 public:
  Former(Plan& plan, const Registry& registry)
      : plan_(plan), graph_(plan.graph), registry_(registry) {
    taken_.assign(static_cast<std::size_t>(graph_.node_count()), false);
  }

  void form() {
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) claim_casts(id);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (!is_pointwise(graph_.node(*it)) && family(*it).epilogue) start(*it);
    }
    for (const NodeId id : order) {
      if (!taken(id)) start(id);
    }
    std::sort(kernels_.begin(), kernels_.end(), [](const KernelPlan& a, const KernelPlan& b) {
      return a.group.members[0].anchor < b.group.members[0].anchor;
    });
    plan_.kernels = std::move(kernels_);
  }

 private:
  bool taken(NodeId id) const { return taken_[static_cast<std::size_t>(id)]; }

  /// Conversions that the kernel of this anchor does while it loads.
  void claim_casts(NodeId id) {
    const Node& node = graph_.node(id);
    if (plan_.options.fusion == FusionLevel::kOff || is_float_cast(graph_, node) ||
        !family(id).converts)
      return;
    for (const ValueId input : node.inputs) {
      const NodeId producer = input == kNoValue ? kNoNode : graph_.producer(input);
      if (producer == kNoNode || !is_float_cast(graph_, graph_.node(producer)) ||
          graph_.is_output(input) || graph_.users(input).size() != 1)
        continue;
      casts_[id].push_back(producer);
      taken_[static_cast<std::size_t>(producer)] = true;
    }
  }

  const KernelFamily& family(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.kind() == OpKind::kReshape) return kView;
    std::string reasons;
    for (const KernelFamily& row : registry_) {
      const Support support = row.supports(graph_, node, plan_.device);
      if (support.ok && (row.pays == nullptr || row.pays(graph_, node, plan_.device).ok))
        return row;
      if (!support.reason.empty()) reasons += fmt::format("; {}: {}", row.name, support.reason);
    }
    fail(ErrorCode::kUnsupported, "no kernel on {} runs node '{}' ({}){}", plan_.device.name,
         node.id, to_string(node.kind()), reasons);
  }

  /// Families that are wanted say why they do not run a node.
  void record_refusals(NodeId anchor, const KernelFamily& taken) {
    for (const KernelFamily& row : registry_) {
      if (row.name == taken.name) return;
      if (!row.wanted) continue;
      Support support = row.supports(graph_, graph_.node(anchor), plan_.device);
      if (support.ok && row.pays != nullptr)
        support = row.pays(graph_, graph_.node(anchor), plan_.device);
      if (support.reason.empty()) continue;
      plan_.not_fused.push_back(
          {{graph_.node(anchor).id}, std::move(support.rule), std::move(support.reason)});
    }
  }

  void start(NodeId anchor) {
    const KernelFamily& row = family(anchor);
    record_refusals(anchor, row);
    KernelPlan kernel;
    kernel.family = row.name;
    kernel.backend = row.backend;
    Group::Member member;
    member.anchor = anchor;
    member.result = graph_.node(anchor).output();
    taken_[static_cast<std::size_t>(anchor)] = true;
    if (row.epilogue && graph_.node(anchor).outputs.size() == 1) grow(member, row);
    kernel.group.casts = casts_[anchor];
    for (const EpilogueStep& step : member.epilogue.steps) take_casts(step.node, row, kernel.group);
    kernel.kind = row.name == "reference"   ? KernelKind::kReference
                  : member.epilogue.empty() ? KernelKind::kSingle
                                            : KernelKind::kEpilogue;
    collect_values(kernel.group, member);
    kernel.group.members.push_back(std::move(member));
    kernels_.push_back(std::move(kernel));
  }

  void grow(Group::Member& member, const KernelFamily& row) {
    std::optional<EpilogueStep> step = next_step(member, row);
    for (; step; step = next_step(member, row)) append(member, *step);
    if (row.converts) step = last_cast(member);
    if (step) append(member, *step);
  }

  /// What the node of a step would have converted as an anchor, its kernel converts, if it can.
  void take_casts(NodeId step, const KernelFamily& row, Group& group) {
    for (const NodeId cast : casts_[step]) {
      if (row.converts) {
        group.casts.push_back(cast);
      } else {
        taken_[static_cast<std::size_t>(cast)] = false;
      }
    }
  }

  void append(Group::Member& member, const EpilogueStep& step) {
    taken_[static_cast<std::size_t>(step.node)] = true;
    member.result = graph_.node(step.node).output();
    member.epilogue.steps.push_back(step);
  }

  /// The Cast that is the only reader of the result, done while storing.
  std::optional<EpilogueStep> last_cast(const Group::Member& member) {
    const std::vector<NodeId>& users = graph_.users(member.result);
    if (users.size() != 1 || taken(users[0]) || graph_.is_output(member.result) ||
        !is_float_cast(graph_, graph_.node(users[0])) ||
        !is_float(graph_.value(member.result).dtype) || plan_.options.fusion == FusionLevel::kOff)
      return std::nullopt;
    EpilogueStep step;
    step.node = users[0];
    step.cast = graph_.node(users[0]).as<Cast>()->to;
    return step;
  }

  /// The pointwise node after member.result as a step, or nothing and perhaps a refusal.
  std::optional<EpilogueStep> next_step(const Group::Member& member, const KernelFamily& row) {
    const ValueId result = member.result;
    const std::vector<NodeId>& users = graph_.users(result);
    const auto first = std::find_if(users.begin(), users.end(),
                                    [this](NodeId user) { return is_step(graph_.node(user)); });
    if (first == users.end()) return std::nullopt;
    const NodeId user = *first;
    const Node& node = graph_.node(user);
    const auto refuse = [&](std::string rule, std::string reason) {
      plan_.not_fused.push_back(
          {{graph_.node(member.anchor).id, node.id}, std::move(rule), std::move(reason)});
      return std::nullopt;
    };
    const auto if_taken = [&](EpilogueStep step) -> std::optional<EpilogueStep> {
      if (row.takes_step == nullptr) return step;
      Support support = row.takes_step(graph_, member, step, plan_.device);
      if (support.ok) return step;
      return refuse(std::move(support.rule), std::move(support.reason));
    };
    const std::string name = graph_.value(result).name;
    if (graph_.is_output(result))
      return refuse("graph-output", fmt::format("'{}' is also a graph output", name));
    if (users.size() > 1) {
      const bool both_sides =
          std::all_of(users.begin(), users.end(), [user](NodeId other) { return other == user; });
      if (both_sides)
        return refuse("both-operands", fmt::format("'{}' is both operands of '{}'", name, node.id));
      return refuse("several-readers",
                    fmt::format("'{}' is read by {}", name, lists(users, graph_)));
    }
    if (taken(user))
      return refuse("joined-elsewhere",
                    fmt::format("'{}' is the epilogue of another kernel", node.id));
    if (!computes_in(plan_.device, graph_.value(result).dtype)) {
      return refuse("dtype", fmt::format("'{}' is {}; epilogues compute in float", name,
                                         to_string(graph_.value(result).dtype)));
    }
    if (plan_.options.fusion == FusionLevel::kOff) return refuse("option", "--fusion off");
    const auto& steps = member.epilogue.steps;
    const auto operands = std::count_if(steps.begin(), steps.end(), [](const EpilogueStep& one) {
      return one.operand != kNoValue;
    });
    if (std::ssize(steps) >= row.most_steps ||
        (node.kind() == OpKind::kBinary && operands >= row.most_operands)) {
      return refuse(
          "epilogue-length",
          fmt::format("the epilogue has {} steps and {} operands; {} takes {} and {}", steps.size(),
                      operands, row.name, row.most_steps, row.most_operands));
    }

    EpilogueStep step;
    step.node = user;
    if (const auto* unary = node.as<Unary>()) {
      step.unary = *unary;
      return if_taken(step);
    }
    step.binary = node.as<Binary>()->fn;
    step.swapped = node.inputs[1] == result;
    step.operand = node.inputs[step.swapped ? 0 : 1];
    const Shape& shape = graph_.value(result).shape;
    const Value& operand = graph_.value(step.operand);
    if (!computes_in(plan_.device, operand.dtype)) {
      return refuse("dtype", fmt::format("operand '{}' is {}; epilogues compute in float",
                                         operand.name, to_string(operand.dtype)));
    }
    if (graph_.value(node.output()).shape != shape) {
      return refuse("shape",
                    fmt::format("'{}' has shape {}: it broadcasts the result {}", node.id,
                                to_string(graph_.value(node.output()).shape), to_string(shape)));
    }
    std::string why;
    const std::optional<Broadcast> broadcast = classify_broadcast(operand.shape, shape, &why);
    if (!broadcast) return refuse("broadcast", why);
    step.broadcast = *broadcast;
    return if_taken(step);
  }

  void collect_values(Group& group, const Group::Member& member) {
    const auto add_input = [&](ValueId id) {
      if (id == kNoValue || graph_.value(id).is_constant()) return;
      const NodeId producer = graph_.producer(id);
      const auto& casts = group.casts;
      if (producer != kNoNode && std::find(casts.begin(), casts.end(), producer) != casts.end())
        id = graph_.node(producer).inputs[0];
      if (std::find(group.inputs.begin(), group.inputs.end(), id) == group.inputs.end())
        group.inputs.push_back(id);
    };
    for (const ValueId input : graph_.node(member.anchor).inputs) add_input(input);
    for (const EpilogueStep& step : member.epilogue.steps) add_input(step.operand);
    if (!member.epilogue.empty()) {
      group.outputs.push_back(member.result);
      return;
    }
    for (const ValueId output : graph_.node(member.anchor).outputs) {
      if (output != kNoValue) group.outputs.push_back(output);
    }
  }

  Plan& plan_;
  const Graph& graph_;
  const Registry& registry_;
  std::vector<bool> taken_;
  std::map<NodeId, std::vector<NodeId>> casts_;  // by anchor
  std::vector<KernelPlan> kernels_;
};

/// Kernels after the producers of their inputs; among the ready ones the first anchor in the
/// model's order.
void sort_by_dependency(Plan& plan) {
  std::map<ValueId, std::size_t> producer;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    for (const ValueId output : plan.kernels[k].group.outputs) producer[output] = k;
  }
  std::vector<std::size_t> waiting(plan.kernels.size(), 0);
  std::vector<std::vector<std::size_t>> next(plan.kernels.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    for (const ValueId input : plan.kernels[k].group.inputs) {
      if (const auto found = producer.find(input); found != producer.end()) {
        next[found->second].push_back(k);
        ++waiting[k];
      }
    }
    if (waiting[k] == 0) ready.push(k);
  }
  std::vector<KernelPlan> sorted;
  while (!ready.empty()) {
    const std::size_t k = ready.top();
    ready.pop();
    sorted.push_back(std::move(plan.kernels[k]));
    for (const std::size_t after : next[k]) {
      if (--waiting[after] == 0) ready.push(after);
    }
  }
  ensure(sorted.size() == plan.kernels.size(), "groups form no cycle");
  plan.kernels = std::move(sorted);
}

}  // namespace

const KernelFamily& family_of(const Registry& registry, std::string_view name) {
  if (name == kView.name) return kView;
  const auto found = std::find_if(registry.begin(), registry.end(),
                                  [name](const KernelFamily& row) { return row.name == name; });
  ensure(found != registry.end(), "a planned family is in the registry");
  return *found;
}

void form_groups(Plan& plan, const Registry& registry) {
  Former(plan, registry).form();
  sort_by_dependency(plan);
}

}  // namespace braze
