// Model layout or channels-last for every value, so that the fewest bytes are copied from one to
// the other.
//
// A value has the layout its producer writes. A reader that cannot read it that way costs one copy
// of the value (shared by all such readers). Families that read and write each image in either
// layout cost almost nothing whatever the choice. The sum is lowered by flipping kernels that have
// a choice: whole clusters of same-layout kernels first, then single ones.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

/// Cost of reading or writing model layout where channels-last is the kernel's native one, as a
/// fraction of a copy.
constexpr double kForeignLayout = 0.05;
/// Cost of an epilogue operand that lies otherwise than the result, likewise.
constexpr double kForeignOperand = 0.5;

bool keeps_axes_0_and_1(const Plan& plan, const Node& node) {
  const Value& from = plan.graph.value(node.inputs[0]);
  const Value& to = plan.graph.value(node.outputs[0]);
  return is_image(from) && is_image(to) && from.shape[0] == to.shape[0] &&
         from.shape[1] == to.shape[1];
}

class Assigner {
 public:
  Assigner(Plan& plan, const Registry& registry) : plan_(plan), registry_(registry) {
    layout_.assign(static_cast<std::size_t>(plan.graph.value_count()), Layout::kModel);
    for (const KernelPlan& kernel : plan.kernels) rules_.push_back(rule_of(kernel));
    readers_.resize(layout_.size());
    producer_.assign(layout_.size(), -1);
    for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
      for (const ValueId input : plan.kernels[k].group.inputs) readers_[index(input)].push_back(k);
      for (const ValueId output : plan.kernels[k].group.outputs)
        producer_[index(output)] = static_cast<int>(k);
    }
  }

  void assign() {
    start();
    improve();
    std::vector<Placement>& placements = plan_.placements;
    placements.resize(layout_.size());
    for (ValueId id = 0; id < plan_.graph.value_count(); ++id) place(id, layout_[index(id)]);
    insert_copies();
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  const Value& value(ValueId id) const { return plan_.graph.value(id); }
  Layout io_layout() const {
    return plan_.options.nhwc_io ? Layout::kChannelsLast : Layout::kModel;
  }
  bool has_choice(ValueId id) const {
    return is_image(value(id)) && !value(id).is_constant() && !is_layout_neutral(value(id));
  }

  LayoutRule rule_of(const KernelPlan& kernel) const {
    const Node& anchor = plan_.graph.node(kernel.group.members[0].anchor);
    if (anchor.kind() == OpKind::kReshape)
      return keeps_axes_0_and_1(plan_, anchor) ? LayoutRule::kSame : LayoutRule::kModelOnly;
    const KernelFamily& family = family_of(registry_, kernel.family);
    if (family.layout_of == nullptr) return family.layouts;
    const std::optional<Layout> layout =
        family.layout_of(plan_.graph, kernel.group, kernel.group.outputs[0], plan_.device);
    if (!layout) return LayoutRule::kEach;
    return *layout == Layout::kModel ? LayoutRule::kModelOnly : LayoutRule::kChannelsLast;
  }

  /// The layout kernel k needs of an input under the present choice; nullopt if any will do.
  std::optional<Layout> needed(std::size_t k, ValueId input) const {
    const KernelPlan& kernel = plan_.kernels[k];
    if (!has_choice(input)) return std::nullopt;
    if (is_filter(plan_.graph, kernel.group, input)) return Layout::kModel;
    const KernelFamily& family = family_of(registry_, kernel.family);
    if (family.layout_of != nullptr)
      return family.layout_of(plan_.graph, kernel.group, input, plan_.device);
    const ValueId output = kernel.group.outputs[0];
    const bool reshape =
        plan_.graph.node(kernel.group.members[0].anchor).kind() == OpKind::kReshape;
    if (!reshape && value(input).shape.size() != value(output).shape.size()) {
      // A broadcast operand of lower rank has no channel axis of its own.
      return rules_[k] == LayoutRule::kEach ? std::nullopt : std::optional(Layout::kModel);
    }
    switch (rules_[k]) {
      case LayoutRule::kModelOnly:
        return Layout::kModel;
      case LayoutRule::kChannelsLast:
        return Layout::kChannelsLast;
      case LayoutRule::kSame:
        return mode(k);
      case LayoutRule::kEach:
        return std::nullopt;
    }
    return std::nullopt;
  }

  Layout mode(std::size_t k) const { return modes_[k]; }
  bool flexible(std::size_t k) const {
    return rules_[k] == LayoutRule::kSame || rules_[k] == LayoutRule::kEach;
  }

  void set_mode(std::size_t k, Layout layout) {
    modes_[k] = layout;
    for (const ValueId output : plan_.kernels[k].group.outputs) {
      if (has_choice(output)) layout_[index(output)] = layout;
    }
  }

  void start() {
    modes_.assign(rules_.size(), Layout::kModel);
    // Members of a group pass images to each other channels-last.
    for (const KernelPlan& kernel : plan_.kernels) {
      for (std::size_t m = 0; m + 1 < kernel.group.members.size(); ++m) {
        const ValueId id = kernel.group.members[m].result;
        if (is_image(value(id))) layout_[index(id)] = Layout::kChannelsLast;
      }
    }
    for (const ValueId input : plan_.graph.inputs) {
      if (has_choice(input)) layout_[index(input)] = io_layout();
    }
    for (std::size_t k = 0; k < rules_.size(); ++k)
      set_mode(k, rules_[k] == LayoutRule::kModelOnly ? Layout::kModel : Layout::kChannelsLast);
  }

  /// Copies that readers of a value make necessary, in bytes.
  double copy_cost(ValueId id) const {
    if (!has_choice(id)) return 0;
    const Layout mine = layout_[index(id)];
    const double bytes =
        static_cast<double>(value(id).shape.empty() ? 0 : element_count(value(id).shape)) *
        static_cast<double>(size_of(value(id).dtype));
    bool copied = plan_.graph.is_output(id) && mine != io_layout();
    double foreign = 0;
    for (const std::size_t k : readers_[index(id)]) {
      const std::optional<Layout> layout = needed(k, id);
      copied |= layout.has_value() && *layout != mine;
      if (!layout && mine == Layout::kModel) foreign += kForeignLayout;
    }
    return bytes * ((copied ? 1 : 0) + foreign);
  }

  double kernel_cost(std::size_t k) const {
    const KernelPlan& kernel = plan_.kernels[k];
    const ValueId output = kernel.group.outputs[0];
    if (!has_choice(output)) return 0;
    const double bytes = static_cast<double>(element_count(value(output).shape)) *
                         static_cast<double>(size_of(value(output).dtype));
    double cost = rules_[k] == LayoutRule::kEach && layout_[index(output)] == Layout::kModel
                      ? kForeignLayout * bytes
                      : 0;
    const Node& anchor = plan_.graph.node(kernel.group.members[0].anchor);
    if (const auto* transpose = anchor.as<Transpose>()) {
      // Channels-last to model order, or back: a view.
      const Ints& perm = transpose->perm;
      const Layout in = layout_[index(anchor.inputs[0])];
      const auto rank = static_cast<std::int64_t>(perm.size());
      const bool to_last = perm[0] == 0 && perm[static_cast<std::size_t>(rank - 1)] == 1;
      const bool to_second = perm[0] == 0 && perm[1] == rank - 1;
      const bool view =
          (to_last && in == Layout::kChannelsLast && layout_[index(output)] == Layout::kModel) ||
          (to_second && in == Layout::kModel && layout_[index(output)] == Layout::kChannelsLast);
      if (!view) cost += bytes;
    }
    for (const EpilogueStep& step : kernel.group.members.back().epilogue.steps) {
      if (step.operand != kNoValue && step.broadcast == Broadcast::kFull &&
          has_choice(step.operand) && layout_[index(step.operand)] != layout_[index(output)]) {
        cost += kForeignOperand * bytes;
      }
    }
    return cost;
  }

  double total_cost(const std::vector<std::size_t>& kernels) const {
    std::set<ValueId> values;
    std::set<std::size_t> touched;
    for (const std::size_t k : kernels) {
      touched.insert(k);
      for (const ValueId id : plan_.kernels[k].group.inputs) values.insert(id);
      for (const ValueId id : plan_.kernels[k].group.outputs) {
        values.insert(id);
        touched.insert(readers_[index(id)].begin(), readers_[index(id)].end());
      }
    }
    double cost = 0;
    for (const ValueId id : values) cost += copy_cost(id);
    for (const std::size_t k : touched) cost += kernel_cost(k);
    return cost;
  }

  bool flip_if_better(const std::vector<std::size_t>& kernels) {
    const double before = total_cost(kernels);
    std::vector<Layout> old;
    for (const std::size_t k : kernels) old.push_back(mode(k));
    const Layout flipped = old[0] == Layout::kModel ? Layout::kChannelsLast : Layout::kModel;
    for (const std::size_t k : kernels) set_mode(k, flipped);
    if (total_cost(kernels) < before - 0.5) return true;
    for (std::size_t i = 0; i < kernels.size(); ++i) set_mode(kernels[i], old[i]);
    return false;
  }

  /// Same-layout kernels that pass images to each other.
  std::vector<std::vector<std::size_t>> clusters() const {
    std::vector<std::size_t> root(rules_.size());
    for (std::size_t k = 0; k < root.size(); ++k) root[k] = k;
    const auto find = [&root](std::size_t k) {
      while (root[k] != k) k = root[k] = root[root[k]];
      return k;
    };
    for (std::size_t k = 0; k < rules_.size(); ++k) {
      if (rules_[k] != LayoutRule::kSame) continue;
      for (const ValueId output : plan_.kernels[k].group.outputs) {
        if (!has_choice(output)) continue;
        for (const std::size_t reader : readers_[index(output)]) {
          if (rules_[reader] == LayoutRule::kSame) root[find(reader)] = find(k);
        }
      }
    }
    std::map<std::size_t, std::vector<std::size_t>> members;
    for (std::size_t k = 0; k < rules_.size(); ++k) {
      if (flexible(k)) members[find(k)].push_back(k);
    }
    std::vector<std::vector<std::size_t>> result;
    for (auto& [key, list] : members) result.push_back(std::move(list));
    return result;
  }

  /// The cluster and the either-layout kernels whose results it reads: they can write whichever it
  /// wants.
  std::vector<std::size_t> with_feeders(std::vector<std::size_t> cluster) const {
    const std::set<std::size_t> members(cluster.begin(), cluster.end());
    std::set<std::size_t> feeders;
    for (const std::size_t k : members) {
      for (const ValueId input : plan_.kernels[k].group.inputs) {
        const int producer = producer_[index(input)];
        if (producer >= 0 && rules_[static_cast<std::size_t>(producer)] == LayoutRule::kEach)
          feeders.insert(static_cast<std::size_t>(producer));
      }
    }
    for (const std::size_t k : feeders) {
      if (!members.contains(k)) cluster.push_back(k);
    }
    return cluster;
  }

  void improve() {
    const std::vector<std::vector<std::size_t>> groups = clusters();
    for (int sweep = 0; sweep < 8; ++sweep) {
      bool changed = false;
      for (const auto& cluster : groups)
        changed |= flip_if_better(cluster) || flip_if_better(with_feeders(cluster));
      for (std::size_t k = 0; k < rules_.size(); ++k) {
        if (flexible(k)) changed |= flip_if_better({k});
      }
      if (!changed) return;
    }
  }

  void place(ValueId id, Layout layout) {
    Placement& placement = plan_.placements[index(id)];
    placement.layout = layout;
    placement.pitch = layout == Layout::kChannelsLast ? value(id).shape[1] : 0;
    placement.bytes = extent_bytes(value(id), layout, placement.pitch);
    if (value(id).is_constant()) placement.memory = Memory::kConstant;
  }

  void insert_copies() {
    std::map<ValueId, ValueId> copies;
    std::vector<KernelPlan> kernels;
    for (std::size_t k = 0; k < rules_.size(); ++k) {
      const std::vector<ValueId> inputs = plan_.kernels[k].group.inputs;
      for (const ValueId input : inputs) {
        const std::optional<Layout> layout = needed(k, input);
        if (!layout || *layout == layout_[index(input)]) continue;
        auto copy = copies.find(input);
        if (copy == copies.end()) {
          const ValueId added = add_copy(
              plan_, input, *layout == Layout::kModel ? ":model" : ":channels_last", *layout);
          copy = copies.emplace(input, added).first;
          kernels.push_back(copy_kernel(plan_, input, added));
        }
        reroute(plan_.kernels[k].group, input, copy->second);
      }
      kernels.push_back(std::move(plan_.kernels[k]));
    }
    plan_.kernels = std::move(kernels);
  }

  /// The group reads `to` where it read `from`: in its input list, its nodes and its epilogue.
  void reroute(Group& group, ValueId from, ValueId to) {
    const auto patch = [&](NodeId id) {
      for (ValueId& input : plan_.graph.node(id).inputs) {
        if (input == from) input = to;
      }
    };
    std::replace(group.inputs.begin(), group.inputs.end(), from, to);
    for (Group::Member& member : group.members) {
      patch(member.anchor);
      for (EpilogueStep& step : member.epilogue.steps) {
        patch(step.node);
        if (step.operand == from) step.operand = to;
      }
    }
    plan_.graph.touch();
  }

  Plan& plan_;
  const Registry& registry_;
  std::vector<Layout> layout_;     // by value
  std::vector<Layout> modes_;      // by kernel: the layout it writes
  std::vector<LayoutRule> rules_;  // by kernel
  std::vector<std::vector<std::size_t>> readers_;
  std::vector<int> producer_;  // kernel; -1: graph input or constant
};

}  // namespace

bool is_layout_neutral(const Value& value) {
  std::int64_t pixels = 1;
  for (std::size_t axis = 2; axis < value.shape.size(); ++axis) pixels *= value.shape[axis];
  return pixels == 1 || value.shape[1] == 1;
}

bool is_filter(const Graph& graph, const Group& group, ValueId id) {
  return std::ranges::any_of(group.members, [&](const Group::Member& member) {
    const Node& node = graph.node(member.anchor);
    switch (node.kind()) {
      case OpKind::kConv:
      case OpKind::kConvTranspose:
        return node.input(1) == id;
      case OpKind::kQLinearConv:
        return node.input(3) == id;
      default:
        return false;
    }
  });
}

std::int64_t extent_bytes(const Value& value, Layout layout, std::int64_t pitch) {
  const std::int64_t count = element_count(value.shape);
  const auto size = static_cast<std::int64_t>(size_of(value.dtype));
  if (layout == Layout::kModel || count == 0) return count * size;
  const std::int64_t channels = value.shape[1];
  return ((count / channels - 1) * pitch + channels) * size;
}

ValueId add_copy(Plan& plan, ValueId from, std::string_view suffix, Layout layout) {
  const Value original = plan.graph.value(from);
  const ValueId id =
      plan.graph.add_value(original.name + std::string(suffix), original.dtype, original.shape);
  plan.graph.value(id).known_rank = true;
  Placement placement;
  placement.layout = layout;
  placement.pitch = layout == Layout::kChannelsLast ? original.shape[1] : 0;
  placement.bytes = extent_bytes(original, layout, placement.pitch);
  plan.placements.resize(static_cast<std::size_t>(plan.graph.value_count()));
  plan.placements[static_cast<std::size_t>(id)] = placement;
  return id;
}

KernelPlan copy_kernel(const Plan& plan, ValueId from, ValueId to) {
  KernelPlan kernel;
  kernel.family = "relayout";
  kernel.backend = plan.device.kind == DeviceKind::kCpu ? "cpu" : "cuda";
  kernel.kind = KernelKind::kRelayout;
  kernel.group.inputs = {from};
  kernel.group.outputs = {to};
  return kernel;
}

void assign_layouts(Plan& plan, const Registry& registry) { Assigner(plan, registry).assign(); }

}  // namespace braze
