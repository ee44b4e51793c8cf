#include "exec/check_plan.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "exec/blobs.hpp"
#include "graph/check_attributes.hpp"
#include "graph/legality.hpp"
#include "graph/shape.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

template <class... Args>
[[noreturn]] void invalid(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::kModelInvalid, format, std::forward<Args>(args)...);
}

class PlanChecker {
 public:
  PlanChecker(const Plan& plan, const Device& device, const Registry& registry)
      : plan_(plan), graph_(plan.graph), device_(device), registry_(registry) {}

  void check() {
    for (NodeId id = 0; id < graph_.node_count(); ++id) check_node(graph_.node(id));
    if (plan_.arena_bytes < 0) invalid("the arena has {} bytes", plan_.arena_bytes);
    for (ValueId id = 0; id < graph_.value_count(); ++id) check_layout(id);
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
      check_outside(graph_.inputs[i], Memory::kInput, i);
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i)
      check_outside(graph_.outputs[i].value, Memory::kOutput, i);
    for (const KernelPlan& kernel : plan_.kernels) check_kernel(kernel);
  }

 private:
  const Value& value(ValueId id) const { return graph_.value(id); }
  const Placement& placement(ValueId id) const {
    return plan_.placements[static_cast<std::size_t>(id)];
  }
  std::int64_t dense_bytes(ValueId id) const { return extent_bytes(value(id), Layout::kModel, 0); }
  bool is_dense(ValueId id) const {
    return placement(id).layout == Layout::kModel || placement(id).pitch == value(id).shape[1];
  }

  void check_node(const Node& node) const {
    const std::string wrong = graph::illegal(graph_, node, graph::Form::kResolved);
    if (!wrong.empty()) invalid("node '{}' ({}): {}", node.id, to_string(node.kind()), wrong);
    check_attributes(graph_, node);
    const std::vector<TensorType> types = infer(graph_, node);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const Value& made = value(node.outputs[i]);
      if (made.is_constant()) invalid("node '{}' makes the constant '{}'", node.id, made.name);
      if (made.dtype != types[i].dtype || made.shape != types[i].shape) {
        invalid("node '{}' ({}): '{}' is {}{}, expected {}{}", node.id, to_string(node.kind()),
                made.name, to_string(made.dtype), to_string(made.shape), to_string(types[i].dtype),
                to_string(types[i].shape));
      }
    }
  }

  /// Layout, pitch and bytes agree with the shape.
  void check_layout(ValueId id) const {
    const Placement& mine = placement(id);
    if (mine.layout == Layout::kChannelsLast) {
      if (!is_image(value(id))) invalid("'{}' is channels-last, but no image", value(id).name);
      if (mine.pitch < value(id).shape[1])
        invalid("'{}' has {} channels at a pitch of {}", value(id).name, value(id).shape[1],
                mine.pitch);
      Shape padded = value(id).shape;
      padded[1] = mine.pitch;
      check_shape(value(id).name, value(id).dtype, padded);
    }
    const std::int64_t bytes = extent_bytes(value(id), mine.layout, mine.pitch);
    if (mine.bytes != bytes)
      invalid("'{}' takes {} bytes, expected {}", value(id).name, mine.bytes, bytes);
  }

  /// A graph input or output is the whole of the caller's buffer.
  void check_outside(ValueId id, Memory memory, std::size_t index) const {
    const Placement& mine = placement(id);
    if (mine.memory != memory || mine.index != static_cast<std::int64_t>(index) ||
        mine.offset != 0 || !is_dense(id)) {
      invalid("'{}' does not fill the {} {} of the network", value(id).name,
              memory == Memory::kInput ? "input" : "output", index);
    }
  }

  /// Bytes of the memory a placement is in; nullopt if it is in none that a kernel may touch.
  std::optional<std::int64_t> memory_bytes(const Placement& mine) const {
    const auto index = static_cast<std::size_t>(mine.index);
    switch (mine.memory) {
      case Memory::kArena:
        return plan_.arena_bytes;
      case Memory::kInput:
        if (mine.index < 0 || index >= graph_.inputs.size()) return std::nullopt;
        return dense_bytes(graph_.inputs[index]);
      case Memory::kOutput:
        if (mine.index < 0 || index >= graph_.outputs.size()) return std::nullopt;
        return dense_bytes(graph_.outputs[index].value);
      case Memory::kConstant:
      case Memory::kNone:
        break;
    }
    return std::nullopt;
  }

  void check_inside(const KernelPlan& kernel, ValueId id) const {
    const Placement& mine = placement(id);
    const auto limit = memory_bytes(mine);
    const auto element = static_cast<std::int64_t>(size_of(value(id).dtype));
    if (!limit || mine.offset < 0 || mine.offset % element != 0 || mine.offset > *limit ||
        mine.bytes > *limit - mine.offset) {
      invalid("kernel '{}': '{}' lies at {} + {} bytes, outside of its memory of {} bytes",
              kernel.name, value(id).name, mine.offset, mine.bytes, limit.value_or(0));
    }
  }

  void check_kernel(const KernelPlan& kernel) const {
    const auto row =
        std::find_if(registry_.begin(), registry_.end(), [&](const KernelFamily& family) {
          return family.name == kernel.family && family.backend == kernel.backend;
        });
    if (row == registry_.end()) {
      invalid("kernel '{}': there is no family '{}' on '{}'", kernel.name, kernel.family,
              kernel.backend);
    }
    for (const ValueId id : kernel.group.outputs) {
      if (value(id).is_constant() || placement(id).memory == Memory::kInput)
        invalid("kernel '{}' writes '{}', which is not to be written", kernel.name, value(id).name);
      check_inside(kernel, id);
    }
    for (const ValueId id : kernel.group.inputs) {
      if (!value(id).is_constant()) check_inside(kernel, id);
    }
    if (kernel.group.members.empty()) {
      check_copy(kernel);
    } else if (kernel.kind != KernelKind::kRelayout) {
      check_support(kernel, *row);
      check_members(kernel, *row);
      check_layouts(kernel, *row);
    } else {
      invalid("kernel '{}' has {} members, expected none", kernel.name,
              kernel.group.members.size());
    }
    check_candidate(kernel, *row);
  }

  void check_copy(const KernelPlan& kernel) const {
    const Group& group = kernel.group;
    if (kernel.kind != KernelKind::kRelayout || kernel.family != "relayout" ||
        group.inputs.size() != 1 || group.outputs.size() != 1 ||
        value(group.inputs[0]).dtype != value(group.outputs[0]).dtype ||
        value(group.inputs[0]).shape != value(group.outputs[0]).shape)
      invalid("kernel '{}' has no members and does not copy one value to one like it", kernel.name);
  }

  /// The family runs the anchor; or of several members, the group.
  void check_support(const KernelPlan& kernel, const KernelFamily& row) const {
    const Group& group = kernel.group;
    const Node& anchor = graph_.node(group.members[0].anchor);
    if (!group.single() && row.joins == nullptr) {
      invalid("kernel '{}' has {} members; {} takes one", kernel.name, group.members.size(),
              row.name);
    }
    const Support support =
        group.single() ? row.supports(graph_, anchor, device_) : row.joins(graph_, group, device_);
    if (!support.ok)
      invalid("kernel '{}': {} does not run node '{}': {}", kernel.name, row.name, anchor.id,
              support.reason);
  }

  /// The family runs the members' epilogues too; each member reads inputs of the group or what a
  /// member before it makes, and what the last one makes is stored.
  void check_members(const KernelPlan& kernel, const KernelFamily& row) const {
    const std::vector<ValueId>& inputs = kernel.group.inputs;
    std::vector<ValueId> made;
    for (const Group::Member& member : kernel.group.members) {
      std::vector<ValueId> reads = graph_.node(member.anchor).inputs;
      if (!member.epilogue.empty()) check_epilogue(kernel, member, row);
      for (const EpilogueStep& step : member.epilogue.steps) {
        if (step.operand != kNoValue) reads.push_back(step.operand);
      }
      for (ValueId id : reads) {
        if (id == kNoValue || value(id).is_constant()) continue;
        id = loaded(kernel.group, id, row);
        if (std::ranges::find(inputs, id) == inputs.end() &&
            std::ranges::find(made, id) == made.end())
          invalid("kernel '{}' does not read '{}', which it needs", kernel.name, value(id).name);
      }
      const std::vector<ValueId> results = results_of(member);
      // Members of a group make one result each; several of them may be one node.
      if (!kernel.group.single() && std::ranges::find(results, member.result) == results.end())
        invalid("kernel '{}': node '{}' does not make value {}", kernel.name,
                graph_.node(member.anchor).id, member.result);
      if (kernel.group.single()) {
        made.insert(made.end(), results.begin(), results.end());
      } else {
        made.push_back(member.result);
      }
    }
    // The last member's results come first, then those that others need as well.
    const Group::Member& last = kernel.group.members.back();
    std::vector<ValueId> stored = results_of(last);
    const std::vector<ValueId>& outputs = kernel.group.outputs;
    if (row.stores && outputs.size() > stored.size()) {
      for (auto id = outputs.begin() + std::ssize(stored); id != outputs.end(); ++id) {
        const bool once = std::ranges::count(outputs, *id) == 1;
        if (once && std::ranges::find(made, *id) != made.end()) stored.push_back(*id);
      }
    }
    if (stored != outputs)
      invalid("kernel '{}' does not store what node '{}' makes", kernel.name,
              graph_.node(last.anchor).id);
  }

  std::vector<ValueId> results_of(const Group::Member& member) const {
    if (!member.epilogue.empty()) return {member.result};
    std::vector<ValueId> results;
    std::ranges::copy_if(graph_.node(member.anchor).outputs, std::back_inserter(results),
                         [](ValueId id) { return id != kNoValue; });
    return results;
  }

  /// What is read for `id`: itself, or the operand of a Cast that is done while loading.
  ValueId loaded(const Group& group, ValueId id, const KernelFamily& row) const {
    const NodeId producer = graph_.producer(id);
    const bool converted =
        row.converts && producer != kNoNode &&
        std::find(group.casts.begin(), group.casts.end(), producer) != group.casts.end();
    if (!converted) return id;
    const ValueId from = graph_.node(producer).inputs[0];
    if (!is_float(value(from).dtype) || !is_float(value(id).dtype) || value(from).is_constant())
      invalid("node '{}' cannot be done while loading", graph_.node(producer).id);
    return from;
  }

  void check_epilogue(const KernelPlan& kernel, const Group::Member& member,
                      const KernelFamily& row) const {
    const Node& anchor = graph_.node(member.anchor);
    const auto check_value = [&](ValueId id, const Shape& shape) {
      const DType dtype = value(id).dtype;
      const bool half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
      const bool computed = dtype == DType::kFloat32 || (half && device_.kind == DeviceKind::kCuda);
      if (computed && value(id).shape == shape) return;
      invalid("kernel '{}': '{}' is {}{}, expected float{} in an epilogue", kernel.name,
              value(id).name, to_string(dtype), to_string(value(id).shape), to_string(shape));
    };
    if (!row.epilogue || anchor.outputs.size() != 1)
      invalid("kernel '{}': {} takes no epilogue", kernel.name, row.name);
    const auto& steps = member.epilogue.steps;
    const auto operands = std::count_if(steps.begin(), steps.end(), [](const EpilogueStep& step) {
      return step.operand != kNoValue;
    });
    if (std::ssize(steps) > row.most_steps + 1 || operands > row.most_operands)  // and a Cast
      invalid("kernel '{}': {} takes no epilogue of {} steps and {} operands", kernel.name,
              row.name, steps.size(), operands);
    const Shape& shape = value(anchor.outputs[0]).shape;
    check_value(anchor.outputs[0], shape);
    Group::Member before{member.anchor, {}, anchor.outputs[0]};  // the steps seen so far
    for (const EpilogueStep& step : member.epilogue.steps) {
      if (row.takes_step != nullptr) {
        const Support support = row.takes_step(graph_, before, step, device_);
        if (!support.ok)
          invalid("kernel '{}': {} does not run node '{}': {}", kernel.name, row.name,
                  graph_.node(step.node).id, support.reason);
        before.epilogue.steps.push_back(step);
        before.result = graph_.node(step.node).output();
      }
      check_value(graph_.node(step.node).outputs[0], shape);
      if (step.cast) {
        if (!row.converts || &step != &member.epilogue.steps.back())
          invalid("kernel '{}': {} cannot store another type", kernel.name, row.name);
        continue;
      }
      if (!step.unary) check_value(step.operand, value(step.operand).shape);
      const bool real =
          step.unary ? step.unary->fn != UnaryFn::kNot : step.binary <= BinaryFn::kPRelu;
      if (!real)
        invalid("kernel '{}': node '{}' is no step of an epilogue", kernel.name,
                graph_.node(step.node).id);
    }
  }

  /// Images whose layout matters have the one the family takes; only pitched families meet gaps.
  void check_layouts(const KernelPlan& kernel, const KernelFamily& row) const {
    const ValueId result = kernel.group.outputs.at(0);
    const auto check_one = [&](ValueId id, bool input) {
      if (value(id).is_constant() || !is_image(value(id))) return;
      const Layout layout = placement(id).layout;
      if (!is_dense(id) && !row.pitched)
        invalid("kernel '{}': {} does not take the gaps between pixels of '{}'", kernel.name,
                row.name, value(id).name);
      if (is_layout_neutral(value(id))) return;
      Layout wanted = row.layouts == LayoutRule::kEach ? layout : Layout::kModel;
      const bool own_channels = !input || value(id).shape.size() == value(result).shape.size();
      if (row.layouts == LayoutRule::kChannelsLast && own_channels) wanted = Layout::kChannelsLast;
      if (row.layouts == LayoutRule::kSame && own_channels) wanted = same_layout(kernel);
      if (row.layout_of != nullptr)
        wanted = row.layout_of(graph_, kernel.group, id, device_).value_or(layout);
      if (is_filter(graph_, kernel.group, id)) wanted = Layout::kModel;
      if (layout != wanted)
        invalid("kernel '{}': {} does not take '{}' in this layout", kernel.name, row.name,
                value(id).name);
    };
    for (const ValueId id : kernel.group.inputs) check_one(id, true);
    for (const ValueId id : kernel.group.outputs) check_one(id, false);
  }

  /// The layout that all images of a kernel share: that of its first one which is not neutral.
  Layout same_layout(const KernelPlan& kernel) const {
    const std::size_t rank = value(kernel.group.outputs[0]).shape.size();
    for (const auto* ids : {&kernel.group.outputs, &kernel.group.inputs}) {
      for (const ValueId id : *ids) {
        if (!value(id).is_constant() && is_image(value(id)) && value(id).shape.size() == rank &&
            !is_layout_neutral(value(id)))
          return placement(id).layout;
      }
    }
    return Layout::kModel;
  }

  void check_candidate(const KernelPlan& kernel, const KernelFamily& row) const {
    std::vector<Candidate> known;
    if (row.candidates != nullptr && !kernel.group.members.empty())
      known = row.candidates(graph_, kernel.group, device_);
    if (known.empty()) known.emplace_back();
    const auto same = [&](const Candidate& candidate) {
      return std::equal(
          candidate.parameters.begin(), candidate.parameters.end(),
          kernel.candidate.parameters.begin(), kernel.candidate.parameters.end(),
          [](const auto& a, const auto& b) { return a.name == b.name && a.value == b.value; });
    };
    if (std::none_of(known.begin(), known.end(), same))
      invalid("kernel '{}': {} has no such candidate", kernel.name, row.name);
  }

  const Plan& plan_;
  const Graph& graph_;
  const Device& device_;
  const Registry& registry_;
};

}  // namespace

void check_plan(const Plan& plan, const Device& device, const Registry& registry) {
  PlanChecker(plan, device, registry).check();
}

}  // namespace braze
