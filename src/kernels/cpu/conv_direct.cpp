#include "kernels/cpu/conv_direct.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "graph/window.hpp"
#include "kernels/cpu/conv_direct_run.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

Support supports(const Graph& graph, const Node& anchor, const Device&) {
  if (anchor.kind() != OpKind::kConv) return Support::no("operator", "only Conv");
  for (const ValueId id : anchor.inputs) {
    if (id == kNoValue || graph.value(id).dtype == DType::kFloat32) continue;
    return Support::no("dtype", fmt::format("{} is {}; only float", graph.value(id).name,
                                            to_string(graph.value(id).dtype)));
  }
  const Shape& x = graph.value(anchor.input(0)).shape;
  const Shape& y = graph.value(anchor.output()).shape;
  if (x.size() < 3 || x.size() > 5)
    return Support::no("rank", fmt::format("input {}; only 1 to 3 spatial axes", to_string(x)));
  if (element_count(x) == 0 || element_count(y) == 0)
    return Support::no("empty", "the input or the output has no elements");
  return Support::yes();
}

Candidate candidate(ConvVector vector, std::int64_t rows, std::int64_t vectors) {
  return {{{"vector", static_cast<std::int64_t>(vector)}, {"rows", rows}, {"vectors", vectors}}};
}

/// Zeros leave a choice to the model, which knows the layouts by then. vector: 1 channels, 2 pixels
/// lie along a vector. rows: output rows for which a block's weights are read once. vectors: most
/// of them in an inner loop.
std::vector<Candidate> candidates(const Graph&, const Group&, const Device&) {
  std::vector<Candidate> list{candidate(ConvVector::kAuto, 0, 0)};
  for (const ConvVector vector : {ConvVector::kChannels, ConvVector::kPixels}) {
    for (const std::int64_t rows : {1, 4}) {
      for (const std::int64_t vectors : {1, 2, 3}) list.push_back(candidate(vector, rows, vectors));
    }
  }
  return list;
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const Node& node = anchor_of(graph, group);
  const Shape& w = graph.value(node.input(1)).shape;
  const Shape& y = graph.value(node.output()).shape;
  const auto sum =
      static_cast<double>(element_count(w)) / static_cast<double>(w[0]);  // terms of an output
  const double flops = 2 * sum * static_cast<double>(element_count(y));

  // Lanes in use, for the better of the two vectors; then what starting and storing a tile of 28
  // vectors costs.
  const std::int64_t lanes = device.isa == "AVX3" ? 16 : device.isa == "AVX2" ? 8 : 4;
  const auto used = [lanes](std::int64_t n) {
    return static_cast<double>(n) / static_cast<double>(ceil_div(n, lanes) * lanes);
  };
  const double by_channels = used(w[0] / node.as<Conv>()->group);
  const double by_pixels = used(y.back());
  const auto vector = static_cast<ConvVector>(candidate.get("vector"));
  const double lanes_used = vector == ConvVector::kChannels ? by_channels
                            : vector == ConvVector::kPixels ? by_pixels
                                                            : std::max(by_channels, by_pixels);
  const double tile = 28 * sum;
  return streaming_work(graph, group, flops, 0.93 * lanes_used * tile / (tile + 60));
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  ConvChoice choice;
  choice.vector = static_cast<ConvVector>(kernel.candidate.get("vector"));
  choice.rows = kernel.candidate.get("rows");
  choice.vectors = kernel.candidate.get("vectors");
  return std::make_unique<ConvDirectKernel>(plan, kernel, choice);
}

}  // namespace

Row conv_direct() {
  KernelFamily family;
  family.name = "conv_direct";
  family.backend = "cpu";
  family.layouts = LayoutRule::kEach;
  family.epilogue = true;
  family.pitched = true;
  family.supports = supports;
  family.candidates = candidates;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
