#include "kernels/cpu/conv_winograd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cpu/conv_winograd_run.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

constexpr int kTiles[] = {4, 2};
constexpr double kGain = 0.95;  // of the direct form's time, for an estimate to be believed

std::string algorithm(int m) { return fmt::format("winograd F({0}x{0},3x3)", m); }

/// Refusals of other convolutions have no reason: nobody expects them here.
Support supports_shape(const Graph& graph, const Node& anchor) {
  const Conv* conv = anchor.as<Conv>();
  if (conv == nullptr) return Support::no("operator", "");
  const Value& w = graph.value(anchor.input(1));
  const Value& y = graph.value(anchor.output());
  for (const ValueId id : anchor.inputs) {
    if (id != kNoValue && graph.value(id).dtype != DType::kFloat32) return Support::no("dtype", "");
  }
  const Window& window = conv->window;
  if (w.shape.size() != 4 || w.shape[2] != 3 || w.shape[3] != 3) return Support::no("filter", "");
  const auto ones = [](const Ints& all) { return std::ranges::count(all, 1) == std::ssize(all); };
  if (!ones(window.strides)) return Support::no("stride", "");
  if (!ones(window.dilations)) return Support::no("dilation", "");
  if (conv->group != 1) return Support::no("groups", "");
  if (element_count(graph.value(anchor.input(0)).shape) == 0 || element_count(y.shape) == 0)
    return Support::no("empty", "");
  const ValueId bias = anchor.input(2);
  if (!w.is_constant() || (bias != kNoValue && !graph.value(bias).is_constant()))
    return Support::no("weights", "");
  return Support::yes();
}

double error_of(const Graph& graph, const Node& anchor, int m) {
  const Value& w = graph.value(anchor.input(1));
  return winograd_error(w.constant->as<float>(), w.shape[0], w.shape[1], m);
}

Support supports(const Graph& graph, const Node& anchor, const Device& device) {
  Support support = supports_shape(graph, anchor);
  if (!support.ok) return support;
  const double error = error_of(graph, anchor, 2);  // the smaller one
  if (!std::isfinite(error))
    return Support::no("weights", "a weight, or a transformed one, is not finite in float");
  if (error <= device.max_error) return support;
  return Support::no("accuracy",
                     fmt::format("{} may be off by {:.1e} of the output's range; --max-error is {}",
                                 algorithm(2), error, device.max_error));
}

/// Is the value, or what its only reader makes of it, an output of the graph?
bool leads_out(const Graph& graph, ValueId id) {
  if (graph.is_output(id)) return true;
  const std::vector<NodeId>& users = graph.users(id);
  if (users.size() != 1 || graph.node(users[0]).outputs.size() != 1) return false;
  return graph.is_output(graph.node(users[0]).output());
}

WinogradProblem problem_of(const Graph& graph, const Node& anchor) {
  const ValueId x = anchor.input(0);
  const Shape& y = graph.value(anchor.output()).shape;
  WinogradProblem problem{.batch = y[0],
                          .channels = graph.value(x).shape[1],
                          .outputs = y[1],
                          .height = y[2],
                          .width = y[3]};
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).is_constant()) problem.constant_bytes += bytes_of(graph, id);
  }
  if (graph.producer(x) == kNoNode) ++problem.copied_images;
  if (leads_out(graph, anchor.output())) ++problem.copied_images;
  return problem;
}

Candidate candidate(int m, std::int64_t segment) {
  Candidate candidate{{{"tile", m}, {"tiles", segment}}, algorithm(m)};
  return candidate;
}

/// tile: its side, in outputs. tiles: transformed together, at most; 0 leaves that to the cache.
std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device& device) {
  const Node& node = anchor_of(graph, group);
  std::vector<Candidate> list;
  for (const int m : kTiles) {
    if (error_of(graph, node, m) > device.max_error) continue;
    for (const std::int64_t segment : {0, 14, 28}) list.push_back(candidate(m, segment));
  }
  return list;
}

Support pays(const Graph& graph, const Node& anchor, const Device& device) {
  const WinogradProblem problem = problem_of(graph, anchor);
  const double direct = kGain * winograd_direct_us(problem, device);
  for (const int m : kTiles) {
    if (winograd_us(problem, m, device) < direct && error_of(graph, anchor, m) <= device.max_error)
      return Support::yes();
  }
  return Support::no("slower", "");
}

/// The products' operations; the transforms' time counts as a lower rate.
Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const int m = static_cast<int>(candidate.get("tile"));
  const WinogradProblem problem = problem_of(graph, anchor_of(graph, group));
  const std::int64_t tiles =
      problem.batch * ceil_div(problem.height, m) * ceil_div(problem.width, m);
  const double flops = 2.0 * static_cast<double>((m + 2) * (m + 2) * tiles) *
                       static_cast<double>(problem.channels * problem.outputs);
  const double us = winograd_us(problem, m, device);
  return streaming_work(graph, group, flops, flops / (us * 1e-6 * device.flops_fp32));
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  WinogradChoice choice;
  choice.m = static_cast<int>(kernel.candidate.get("tile", 4));
  choice.segment = kernel.candidate.get("tiles");
  return std::make_unique<ConvWinogradKernel>(plan, kernel, choice);
}

}  // namespace

Row conv_winograd() {
  KernelFamily family;
  family.name = "conv_winograd";
  family.backend = "cpu";
  family.layouts = LayoutRule::kEach;
  family.epilogue = true;
  family.pitched = true;
  family.wanted = true;
  family.supports = supports;
  family.pays = pays;
  family.candidates = candidates;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
