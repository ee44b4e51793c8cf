// braze explain: the plan; then what was folded; then what was not fused and why.
#include <algorithm>
#include <map>
#include <memory>

#include "cli/commands.hpp"
#include "cli/failure.hpp"
#include "cli/options.hpp"
#include "cli/text.hpp"

namespace braze::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const PlanSummary& plan) {
  Json kernels = Json::array();
  for (const KernelSummary& kernel : plan.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"backend", kernel.backend},
                       {"nodes", kernel.nodes},
                       {"kind", kernel.kind},
                       {"flops", kernel.flops},
                       {"dram_bytes", kernel.dram_bytes},
                       {"onchip_bytes", kernel.onchip_bytes},
                       {"est_us", kernel.est_us},
                       {"measured", kernel.measured},
                       {"stream", kernel.stream},
                       {"waits", kernel.waits}});
  }
  Json folded = Json::array();
  for (const FoldedNode& node : plan.folded)
    folded.push_back({{"node", node.node}, {"into", node.into}});
  Json refused = Json::array();
  for (const NotFused& join : plan.not_fused)
    refused.push_back({{"nodes", join.nodes}, {"rule", join.rule}, {"reason", join.reason}});
  return {{"kernels", kernels},
          {"folded", folded},
          {"not_fused", refused},
          {"launches", plan.launches},
          {"peak_bytes", plan.peak_bytes}};
}

std::string kernels_text(const PlanSummary& plan) {
  std::size_t width = 6;
  for (const KernelSummary& kernel : plan.kernels) width = std::max(width, kernel.name.size());
  std::string text = fmt::format("{:<{}}  {:<9}  {:>9}  {:>8}  {:>8}  {:>9}\n", "kernel", width,
                                 "kind", "MFLOP", "memory", "on chip", "us");
  for (const KernelSummary& kernel : plan.kernels) {
    text += fmt::format("{:<{}}  {:<9}  {:>9.3f}  {:>8}  {:>8}  {:>9.2f} {}\n", kernel.name, width,
                        kernel.kind, kernel.flops / 1e6, bytes_text(kernel.dram_bytes),
                        bytes_text(kernel.onchip_bytes), kernel.est_us,
                        kernel.measured ? "measured" : "estimated");
    if (!kernel.nodes.empty()) text += fmt::format("    nodes: {}\n", joined(kernel.nodes));
    text += fmt::format("    {} {}: {}\n", kernel.backend, kernel.family, printable(kernel.detail));
  }
  return text;
}

std::string folded_text(const PlanSummary& plan) {
  std::map<std::string, std::vector<std::string>> by_target;
  for (const FoldedNode& node : plan.folded) by_target[node.into].push_back(node.node);
  std::string text = fmt::format("\nfolded: {}\n", count_text(plan.folded.size(), "node"));
  for (const auto& [into, nodes] : by_target)
    text += fmt::format("  into {}: {}\n", printable(into), joined(nodes));
  return text;
}

std::string refused_text(const PlanSummary& plan) {
  std::map<std::string, std::vector<const NotFused*>> by_rule;
  for (const NotFused& join : plan.not_fused) by_rule[join.rule].push_back(&join);
  std::string text = fmt::format("\nnot fused: {}\n", count_text(plan.not_fused.size(), "join"));
  for (const auto& [rule, joins] : by_rule) {
    text += fmt::format("  {} ({})\n", printable(rule), joins.size());
    for (const NotFused* join : joins)
      text += fmt::format("    {}: {}\n", joined(join->nodes), printable(join->reason));
  }
  return text;
}

std::string text_of(const std::string& file, const PlanSummary& plan) {
  double est_us = 0;
  for (const KernelSummary& kernel : plan.kernels) est_us += kernel.est_us;
  return fmt::format(
             "{} on {}: {}, {}, about {:.0f} us\n"
             "intermediates {} (largest live set {}), constants {}\n\n",
             printable(file), printable(plan.device), count_text(plan.kernels.size(), "kernel"),
             count_text(static_cast<std::size_t>(plan.launches), "launch"), est_us,
             bytes_text(static_cast<double>(plan.peak_bytes)),
             bytes_text(static_cast<double>(plan.largest_live_bytes)),
             bytes_text(static_cast<double>(plan.constant_bytes))) +
         kernels_text(plan) + folded_text(plan) + refused_text(plan);
}

std::size_t find_kernel(const PlanSummary& plan, const std::string& name) {
  std::vector<std::string> names;
  for (const KernelSummary& kernel : plan.kernels) names.push_back(kernel.name);
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    fail(ErrorCode::kUsage, "--source: no kernel is called '{}'; there are {}", name,
         joined(names));
  return static_cast<std::size_t>(found - names.begin());
}

/// What runs for one kernel: the emitted source, of which a kernel in the library has none.
std::string source_text(const KernelSummary& kernel, const std::string& source) {
  return fmt::format(
      "// {}{}\n// family {}, {}\n// nodes: {}\n{}", kernel.name,
      source.empty() ? ": compiled into the library, not emitted for this model." : "",
      kernel.family, printable(kernel.detail), joined(kernel.nodes),
      source.empty() ? "" : "\n" + source);
}

struct ExplainCommand {
  ModelOptions model;
  std::string source;

  void run() const {
    ModelOptions to_look_at = model;
    to_look_at.options.plan_only = true;
    const Model opened = to_look_at.open();
    if (!source.empty()) {
      const std::size_t k = find_kernel(opened.plan(), source);
      const std::string text = opened.source(k);
      print_out(model.json ? json_text({{"kernel", source}, {"source", text}})
                           : source_text(opened.plan().kernels[k], text));
    } else if (model.json) {
      print_out(json_text(json_of(opened.plan())));
    } else {
      print_out(text_of(model.file.string(), opened.plan()));
    }
  }
};

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  auto self = std::make_shared<ExplainCommand>();
  CLI::App* command =
      app.add_subcommand("explain", "Show the plan: what was fused, what was not, and why");
  self->model.add_to(*command);
  command->add_option("--source", self->source, "Show what runs for one kernel")
      ->type_name("KERNEL");
  command->callback([self, &action] { action = [self] { self->run(); }; });
}

}  // namespace braze::cli
