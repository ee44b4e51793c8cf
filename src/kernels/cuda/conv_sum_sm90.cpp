// The sum of two convolutions as one kernel for sm_90a: a block of a residual network whose
// shortcut is a convolution, too. The products of both add up in the same accumulators
// (conv_sm90.cuh), so the first one's result is never anywhere.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/conv_sm90.hpp"
#include "kernels/cuda/families.hpp"

namespace braze::cuda {
namespace {

constexpr int kStepBytes = 128;

/// Is the group two convolutions, of which the second's epilogue begins with adding the first's
/// result, which nobody else reads?
bool is_sum(const Graph& graph, const Group& group) {
  if (group.members.size() != 2 || group.outputs.size() != 1) return false;
  const Group::Member &first = group.members[0], &last = group.members[1];
  if (graph.node(first.anchor).kind() != OpKind::kConv ||
      graph.node(last.anchor).kind() != OpKind::kConv || group.outputs[0] != last.result)
    return false;
  const std::vector<EpilogueStep>& steps = last.epilogue.steps;
  if (!first.epilogue.steps.empty() || steps.empty() || steps[0].binary != BinaryFn::kAdd ||
      steps[0].unary || steps[0].cast || steps[0].operand != first.result ||
      steps[0].broadcast != Broadcast::kFull)
    return false;
  return graph.node(last.anchor).input(0) != first.result &&
         std::ranges::none_of(steps.begin() + 1, steps.end(), [&](const EpilogueStep& step) {
           return step.operand == first.result;
         });
}

/// The sum; pitches are not known yet.
ConvSm90Sum sum_of(const Graph& graph, const Group& group) {
  ConvSm90Sum sum;
  for (const Group::Member& member : group.members) {
    const Node& node = graph.node(member.anchor);
    sum.terms.push_back({&node, conv_sm90_problem(graph, node), 0});
  }
  sum.finish = group.members[1];
  sum.finish.epilogue.steps.erase(sum.finish.epilogue.steps.begin());
  return sum;
}

Support joins(const Graph& graph, const Group& group, const Device& device) {
  if (device.sm != 90 || !is_sum(graph, group)) return Support::no("", "");
  for (const Group::Member& member : group.members) {
    const Node& node = graph.node(member.anchor);
    if (const Support one = supports_conv_sm90(graph, node, device); !one.ok) return one;
    const ConvSm90Problem problem = conv_sm90_problem(graph, node);
    if (problem.step_bytes() != kStepBytes)
      return Support::no(
          "channels", fmt::format("{} channels of '{}'; sums take steps of {} bytes",
                                  problem.channels, graph.value(node.input(0)).name, kStepBytes));
    const ValueId bias = node.input(2);
    if (bias != kNoValue && !graph.value(bias).is_constant())
      return Support::no("bias", fmt::format("the bias of '{}' is not a constant", node.id));
  }
  const Node &first = graph.node(group.members[0].anchor),
             &last = graph.node(group.members[1].anchor);
  if (graph.value(first.input(0)).dtype != graph.value(last.input(0)).dtype)
    return Support::no("dtype", "the convolutions have different types");
  if (!group.casts.empty()) return Support::no("casts", "an operand is converted while it is read");
  return Support::yes();
}

int staged_of(const Graph& graph, const ConvSm90Sum& sum) {
  return staged_bytes(graph, sum.finish, false);
}

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device&) {
  const ConvSm90Sum sum = sum_of(graph, group);
  std::vector<Candidate> list;
  for (const ConvSm90TileShape& tile : conv_sm90_tiles(sum.problem(), staged_of(graph, sum)))
    list.push_back(candidate_of(tile));
  return list;
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const ConvSm90Sum sum = sum_of(graph, group);
  return conv_sm90_work(graph, group, sum.problem(), tile_of(candidate), staged_of(graph, sum),
                        device);
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  ConvSm90Sum sum = sum_of(plan.graph, kernel.group);
  for (ConvSm90Term& term : sum.terms) {
    const std::optional<std::int64_t> pitch = readable_pitch(plan, term.node->input(0));
    ensure(pitch.has_value(), "images of a sum are channels-last");
    term.pitch = *pitch;
  }
  return build_im2col(plan, kernel, tile_of(kernel.candidate), sum);
}

}  // namespace

Row conv_sum_sm90() {
  KernelFamily family;
  family.name = "conv_sum_sm90";
  family.backend = "cuda";
  family.layouts = LayoutRule::kChannelsLast;
  family.epilogue = true;
  family.supports = [](const Graph&, const Node&, const Device&) {
    return Support::no("members", "");  // runs groups of two only
  };
  family.joins = joins;
  family.candidates = candidates;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
