// Squeeze and excitation in one kernel: mean over space -> 1x1 Conv or Gemm -> 1x1 Conv or Gemm
// [-> Mul with the image], with or without the mean.
#include "kernels/cuda/squeeze_excite.hpp"

#include <fmt/format.h>

#include "graph/elements.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/device/squeeze_excite_parameters.h"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels/strides.hpp"

namespace braze::cuda {
namespace {

using namespace squeezing;

Split split_of(const Candidate& candidate) {
  return {candidate.get("slices", 1), candidate.get("ranges", 1)};
}

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device& device) {
  std::vector<Candidate> list;
  for (const Split& split : splits_of(read(graph, group), device))
    list.push_back({{{"slices", split.slices}, {"ranges", split.ranges}}});
  return list;
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const Problem problem = read(graph, group);
  const Split split = split_of(candidate);
  const double images = static_cast<double>(problem.images);
  const double channels = static_cast<double>(problem.channels);
  const double image = images * channels * static_cast<double>(problem.pixels);
  const double repeated = problem.pool == nullptr ? static_cast<double>(split.ranges) : 1;
  double flops = 4 * images * repeated * channels * static_cast<double>(problem.hidden);
  if (problem.pool != nullptr) flops += image;
  if (problem.scale != nullptr) flops += image;
  const DType x = problem.x == kNoValue ? problem.dtype : graph.value(problem.x).dtype;
  const bool half = problem.dtype != DType::kFloat32;
  const double peak = half          ? device.flops_fp16
                      : device.tf32 ? device.flops_tf32
                                    : device.flops_fp32;
  const double us = time_us(problem, split, x, device);
  Work work = cpu::streaming_work(graph, group, flops, flops / (us * 1e-6 * peak));
  work.units = images * static_cast<double>(split.ranges * split.slices);
  return work;
}

/// A product's weights as [outputs][inputs].
std::vector<float> weights_of(const Graph& graph, const Node& node) {
  const Tensor& tensor = *graph.value(node.inputs[1]).constant;
  std::vector<float> weights = load<float>(tensor);
  const auto* gemm = node.as<Gemm>();
  if (gemm == nullptr || gemm->trans_b) return weights;
  const auto inputs = static_cast<std::size_t>(tensor.shape()[0]);
  const auto outputs = static_cast<std::size_t>(tensor.shape()[1]);
  std::vector<float> turned(weights.size());
  for (std::size_t k = 0; k < inputs; ++k) {
    for (std::size_t r = 0; r < outputs; ++r) turned[r * inputs + k] = weights[k * outputs + r];
  }
  return turned;
}

/// As SqueezeExciteParameters::weights says.
std::vector<std::byte> pack(const Graph& graph, const Problem& problem, const Split& split) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const std::vector<float> squeeze = weights_of(graph, graph.node(problem.squeeze->anchor));
  const std::vector<float> excite = weights_of(graph, graph.node(problem.excite->anchor));
  const std::int64_t slice = split.slice(problem), hidden = problem.hidden;
  const std::int64_t padded = round_up(hidden, 8), size = (hidden + padded) * slice;
  std::vector<float> packed(at(split.slices * size), 0.0F);
  for (std::int64_t c = 0; c < problem.channels; ++c) {
    const std::int64_t begin = c / slice * size, mine = c % slice;
    for (std::int64_t k = 0; k < hidden; ++k) {
      packed[at(begin + k * slice + mine)] = squeeze[at(k * problem.channels + c)];
      packed[at(begin + hidden * slice + mine * padded + k)] = excite[at(c * hidden + k)];
    }
  }
  const Tensor tensor = make_tensor(problem.dtype, {split.slices * size}, packed);
  const auto* begin = static_cast<const std::byte*>(tensor.data());
  return {begin, begin + tensor.bytes()};
}

/// Threads that share a row: each has 8 of its weights at a time.
int lanes_for(std::int64_t length) {
  int lanes = 1;
  while (lanes < 32 && lanes * 8 < length) lanes *= 2;
  return lanes;
}

class Builder {
 public:
  Builder(const Plan& plan, const KernelPlan& kernel)
      : plan_(plan),
        kernel_(kernel),
        problem_(read(plan.graph, kernel.group)),
        split_(split_of(kernel.candidate)),
        y_(kernel.group.members.back().result) {}

  Kernel build() {
    const ValueId x = loaded_value(plan_, kernel_.group, problem_.x);
    const ValueId mean = loaded_value(plan_, kernel_.group, problem_.mean);
    const DType y_type = dtype(y_);
    const DType x_type = x == kNoValue ? y_type : dtype(x);
    const int vector = widest_vector(x, x_type, y_type);
    Kernel result;
    device::SqueezeExciteParameters p{};
    bool pixels_together = false;
    if (x != kNoValue) {
      const ImageStrides strides = image_strides(plan_, x, value(x).shape);
      p.x_n = strides.n;
      p.x_pixel = strides.pixel;
      p.x_channel = strides.channel;
      pixels_together = strides.channel != 1;
    }
    if (mean != kNoValue) {
      const Ints strides = axis_strides(plan_, mean);
      p.mean_n = strides[0];
      p.mean_channel = strides[1];
    }
    set_extents(p);
    p.held = static_cast<int>(vectors_held(problem_, split_, vector, x_type, plan_.device));
    p.y = output_parameters(plan_, y_);

    EpilogueEmitter squeeze(plan_, kernel_, *problem_.squeeze, result, 1);
    EpilogueEmitter excite(plan_, kernel_, *problem_.excite, result, 1);
    add_product(squeeze, *problem_.squeeze);
    add_product(excite, *problem_.excite);
    EpilogueEmitter scale(plan_, kernel_, kernel_.group.members.back(), result, vector);
    if (problem_.scale != nullptr) scale.add_steps(*problem_.scale);
    p.squeeze = squeeze.parameters();
    p.excite = excite.parameters();
    p.scale = scale.parameters();

    const bool pool = problem_.pool != nullptr;
    emit(
        result, "squeeze_excite", {"squeeze_excite.cuh"},
        squeeze.source("Squeeze") + excite.source("Excite") + scale.source("Scale"),
        "SqueezeExciteParameters",
        fmt::format("squeeze_excite<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, Squeeze, Excite, "
                    "Scale>",
                    device_type(x_type), device_type(mean == kNoValue ? x_type : dtype(mean)),
                    device_type(y_type), device_type(problem_.dtype), vector, pixels_together, pool,
                    problem_.scale != nullptr, split_.slices, pool ? split_.ranges : 1, kThreads),
        kThreads, kBlocksPerSm);
    result.grid.x = blocks_for(problem_.images * split_.ranges * split_.slices, 1);
    result.cluster = static_cast<std::uint32_t>(split_.cluster(problem_));
    result.shared_bytes = static_cast<std::uint32_t>(
        p.held_at + p.held * kThreads * vector * static_cast<std::int64_t>(size_of(x_type)));
    result.overlaps = true;
    Parameters parameters(p);
    parameters.point(p.x, address_of(plan_, kernel_.group, problem_.x, result));
    parameters.point(p.mean, address_of(plan_, kernel_.group, problem_.mean, result));
    parameters.point(p.weights, add_constant(result, pack(plan_.graph, problem_, split_)));
    parameters.point(p.y.data, {Address::Of::kOutput, cpu::output_index(kernel_.group, y_), 0});
    squeeze.point(parameters, p.squeeze);
    excite.point(parameters, p.excite);
    scale.point(parameters, p.scale);
    parameters.move_to(result);
    return result;
  }

 private:
  const Value& value(ValueId id) const { return plan_.graph.value(id); }
  DType dtype(ValueId id) const { return value(id).dtype; }

  int widest_vector(ValueId x, DType x_type, DType y_type) const {
    if (x == kNoValue) return 1;
    const bool scale = problem_.scale != nullptr;
    for (int v = size_of(x_type) == 4 || (scale && size_of(y_type) == 4) ? 4 : kWidest; v > 1;
         v /= 2) {
      if (takes_vectors(plan_, x, v) && (!scale || takes_vectors(plan_, y_, v))) return v;
    }
    return 1;
  }

  void set_extents(device::SqueezeExciteParameters& p) const {
    const Arena arena = arena_of(problem_, split_);
    const auto to_int = [](std::int64_t n) { return static_cast<int>(n); };
    p.weights_bytes = to_int(arena.weights);
    p.excite_at = to_int(arena.excite_at);
    p.channels = to_int(problem_.channels);
    p.slice = to_int(split_.slice(problem_));
    p.hidden = to_int(problem_.hidden);
    p.hidden_padded = to_int(round_up(problem_.hidden, 8));
    p.squeeze_lanes = lanes_for(p.slice);
    p.excite_lanes = lanes_for(p.hidden_padded);
    p.pixels = to_int(problem_.pixels);
    p.ranges = to_int(split_.ranges);
    p.range = to_int(split_.range(problem_));
    p.partial_at = to_int(arena.partial_at);
    p.groups_at = to_int(arena.groups_at);
    p.totals_at = to_int(arena.totals_at);
    p.mean_at = to_int(arena.mean_at);
    p.parts_at = to_int(arena.parts_at);
    p.hidden_at = to_int(arena.hidden_at);
    p.gate_at = to_int(arena.gate_at);
    p.exchanged_at = to_int(arena.exchanged_at);
    p.held_at = to_int(arena.held_at);
    p.squeeze_rows = value(problem_.squeeze->result).shape.size() == 2 ? 1 : 0;
    p.excite_rows = value(problem_.excite->result).shape.size() == 2 ? 1 : 0;
  }

  void add_product(EpilogueEmitter& epilogue, const Group::Member& member) const {
    const Node& node = plan_.graph.node(member.anchor);
    const auto* gemm = node.as<Gemm>();
    if (gemm == nullptr) {
      epilogue.add_bias(node.input(2));
    } else if (node.input(2) != kNoValue && gemm->beta != 0) {
      epilogue.add_scaled(node.input(2), gemm->beta);
    }
    epilogue.add_steps(member);
  }

  const Plan& plan_;
  const KernelPlan& kernel_;
  Problem problem_;
  Split split_;
  ValueId y_;
};

}  // namespace

Row squeeze_excite() {
  KernelFamily family = image_family("squeeze_excite");
  family.in_place = true;
  family.supports = [](const Graph&, const Node&, const Device&) {
    return Support::no("members", "");  // runs groups of several only
  };
  family.joins = joins;
  family.candidates = candidates;
  family.work = work;
  return {family,
          [](const Plan& plan, const KernelPlan& kernel) { return Builder(plan, kernel).build(); }};
}

}  // namespace braze::cuda
