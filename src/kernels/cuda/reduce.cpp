// Reduce and ArgReduce: every function, set of axes and layout.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernels/cpu/reduce.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/device/reduce_parameters.h"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"

namespace braze::cuda {
namespace {

using cpu::CopyAxis;

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.kind() != OpKind::kReduce && node.kind() != OpKind::kArgReduce)
    return Support::no("operator", "runs Reduce and ArgReduce only");
  const Value& x = graph.value(node.input(0));
  if (x.dtype == DType::kBool) return Support::no("dtype", "reduces numbers, not bool");
  if (x.shape.size() > device::kReduceAxes) return Support::no("rank", "more than 8 axes");
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = cpu::anchor_of(graph, group);
  const double terms = static_cast<double>(element_count(graph.value(node.input(0)).shape));
  return cpu::streaming_work(graph, group, terms, 0.25);
}

bool needs_floats(ReduceFn fn) {
  return fn == ReduceFn::kL2 || fn == ReduceFn::kLogSum || fn == ReduceFn::kLogSumExp;
}

std::string compute_type(const Node& node, DType dtype) {
  if (dtype == DType::kFloat64) return "double";
  if (is_float(dtype)) return "float";
  if (node.as<Reduce>() != nullptr && needs_floats(node.as<Reduce>()->fn)) return "double";
  return dtype == DType::kUInt64 ? "u64" : "i64";
}

/// The struct of reduce.cuh, and the bytes of its state.
struct Operation {
  std::string name;
  std::size_t state_bytes;
};
Operation operation(const Node& node, const std::string& compute, const std::string& type) {
  const std::size_t size = compute == "float" ? 4 : 8;
  if (const auto* arg = node.as<ArgReduce>())
    return {fmt::format("ArgOf<{}, {}, {}>", compute, arg->max, arg->select_last), 16};
  const auto of = [&](const char* name, std::size_t states = 1) -> Operation {
    return {fmt::format("{}<{}>", name, compute), states * size};
  };
  switch (node.as<Reduce>()->fn) {
    case ReduceFn::kMean:
      return of("MeanOf");
    case ReduceFn::kSum:
      return of("SumOf");
    case ReduceFn::kMax:
      return {fmt::format("MaxOf<{}, {}>", compute, type), size};
    case ReduceFn::kMin:
      return {fmt::format("MinOf<{}, {}>", compute, type), size};
    case ReduceFn::kProd:
      return of("ProdOf");
    case ReduceFn::kL1:
      return of("L1Of");
    case ReduceFn::kL2:
      return of("L2Of");
    case ReduceFn::kLogSum:
      return of("LogSumOf");
    case ReduceFn::kLogSumExp:
      return of("LogSumExpOf", 2);
    case ReduceFn::kSumSquare:
      return of("SumSquareOf");
  }
  fail(ErrorCode::kInternal, "internal error: unknown reduction");
}

/// How a block is laid out: groups of `vector` results, threads that share their terms; and over
/// how many blocks these are split, of a cluster or else of the grid.
struct Block {
  int vector = 1, groups = 1, sharing = 256;
  bool terms_together = true;
  int cluster = 1;
  std::uint32_t splits = 1;
};

class Builder {
 public:
  Builder(const Plan& plan, const KernelPlan& kernel)
      : plan_(plan), group_(kernel.group), node_(cpu::anchor_of(plan.graph, kernel.group)) {
    const auto* reduce = node_.as<Reduce>();
    const auto* arg = node_.as<ArgReduce>();
    x_ = node_.input(0);
    y_ = cpu::stored_output(plan.graph, group_);
    axes_ = reduce != nullptr ? cpu::reduce_axes(plan, group_, reduce->axes, reduce->keepdims)
                              : cpu::reduce_axes(plan, group_, {arg->axis}, arg->keepdims);
    // In elements from here on.
    const auto x_size = static_cast<std::int64_t>(size_of(plan.graph.value(x_).dtype));
    const auto y_size = static_cast<std::int64_t>(size_of(plan.graph.value(y_).dtype));
    for (std::vector<CopyAxis>* axes : {&axes_.kept, &axes_.reduced}) {
      for (CopyAxis& axis : *axes) axis.from /= x_size, axis.to /= y_size;
    }
    results_ = cpu::count_of(axes_.kept);
    terms_ = cpu::count_of(axes_.reduced);
  }

  Kernel build() {
    const DType x_type = plan_.graph.value(x_).dtype, y_type = plan_.graph.value(y_).dtype;
    const std::string compute = compute_type(node_, x_type);
    const Operation op = operation(node_, compute, element_type(x_type));
    const Block block = lay_out(x_type, op, compute);
    device::ReduceParameters p{};
    p.groups = results_ / block.vector;
    p.terms = terms_;
    p.inverse = static_cast<float>(1.0 / static_cast<double>(terms_));
    p.kept_axes = static_cast<int>(axes_.kept.size());
    p.reduced_axes = static_cast<int>(axes_.reduced.size());
    for (std::size_t i = 0; i < axes_.kept.size(); ++i) {
      const CopyAxis& axis = axes_.kept[i];
      const int times = i + 1 == axes_.kept.size() ? block.vector : 1;
      if (i + 1 == axes_.kept.size()) p.y_step = axis.to;
      p.kept[i] = {axis.from * times, axis.to * times, divisor_of(axis.extent / times)};
    }
    for (std::size_t i = 0; i < axes_.reduced.size(); ++i) {
      const CopyAxis& axis = axes_.reduced[i];
      p.reduced[i] = {axis.from, 0, divisor_of(axis.extent)};
    }
    Kernel result;
    emit(result, "reduce", {"reduce.cuh"}, "", "ReduceParameters",
         fmt::format("reduce<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>", element_type(x_type),
                     element_type(y_type), compute, op.name, block.vector, block.groups,
                     block.sharing, block.terms_together, axes_.reduced.size() == 1, block.cluster,
                     index_type(std::max(results_, terms_))),
         block.groups * block.sharing);
    result.cluster = static_cast<std::uint32_t>(block.cluster);
    result.grid.x = results_ == 0 ? 0 : blocks_for(p.groups, block.groups) * result.cluster;
    result.shared_bytes = shared_bytes(block, op.state_bytes);
    result.grid.y = block.splits;
    result.overlaps = true;
    Parameters parameters(p);
    parameters.point(p.x, address_of(plan_, group_, x_, result));
    parameters.point(p.y, {Address::Of::kOutput, cpu::output_index(group_, y_), 0});
    if (block.splits > 1) {
      parameters.point(p.partial, {Address::Of::kWorkspace, 0, 0});
      result.workspace_bytes = block.splits * static_cast<std::size_t>(results_) * op.state_bytes;
      parameters.point(p.arrived,
                       add_constant(result, std::vector<std::byte>(result.grid.x * 4UL)));
    }
    parameters.move_to(result);
    return result;
  }

 private:
  /// As ReduceBlock has it.
  static std::uint32_t shared_bytes(const Block& block, std::size_t state_bytes) {
    const auto results =
        static_cast<std::size_t>(block.groups) * static_cast<std::size_t>(block.vector);
    const int lanes =
        block.terms_together ? std::min(block.sharing, 32) : std::max(1, 32 / block.groups);
    const auto parts = static_cast<std::size_t>(block.sharing / lanes);
    const std::size_t exchange =
        block.cluster > 1 ? 16 + static_cast<std::size_t>(block.cluster) * results * 4 : 0;
    return static_cast<std::uint32_t>((exchange + 15) / 16 * 16 + parts * results * state_bytes);
  }

  Block lay_out(DType dtype, const Operation& op, const std::string& compute) const {
    const bool rows = std::any_of(axes_.reduced.begin(), axes_.reduced.end(),
                                  [](const CopyAxis& axis) { return axis.from == 1; });
    if (!rows) return lay_out_columns(dtype, op, compute);
    Block block;
    block.groups = terms_ <= 256 ? 8 : 1;
    block.sharing = 256 / block.groups;
    block.splits = splits_of(block);
    return block;
  }

  /// Blocks of the grid that share the terms, where clusters cannot.
  [[nodiscard]] std::uint32_t splits_of(const Block& block) const {
    const std::int64_t blocks =
        std::max<std::int64_t>((results_ / block.vector + block.groups - 1) / block.groups, 1);
    constexpr std::int64_t kTermsWorthABlock = 8, kMostSplits = 64;
    const std::int64_t wanted = 2LL * plan_.device.units / blocks;
    const std::int64_t possible = terms_ / (block.sharing * kTermsWorthABlock);
    return static_cast<std::uint32_t>(
        std::max<std::int64_t>(1, std::min({wanted, possible, kMostSplits})));
  }

  /// Of the ways to share the work, the one that takes the fewest cycles, about: a block reads some
  /// bytes a cycle, 8 loads of a thread are under way together, and joining takes its time.
  Block lay_out_columns(DType dtype, const Operation& op, const std::string& compute) const {
    constexpr double kBytesOfACycle = 40, kLatency = 700, kOfACluster = 600, kOfAPart = 12;
    const int vector = widest_vector(dtype, op.state_bytes);
    const bool clusters = plan_.device.sm >= 90 && compute == "float" && op.state_bytes == 4;
    const double bytes = vector * static_cast<double>(size_of(dtype));
    Block best;
    double least = 0;
    for (const int groups : {32, 16, 8, 4, 2, 1}) {
      for (const int sharing : {2, 4, 8, 16, 32, 64, 128, 256}) {
        const int threads = groups * sharing;
        if (threads < 64 || threads > 256 || (sharing < 32 / groups)) continue;
        for (const int cluster : {1, 2, 4, 8}) {
          if (cluster > 1 && (!clusters || groups * vector % 4 != 0)) continue;
          Block block{vector, groups, sharing, false, cluster, 1};
          if (!clusters) block.splits = splits_of(block);
          const double split = cluster * static_cast<double>(block.splits);
          const double blocks =
              std::ceil(static_cast<double>(results_) / (vector * groups)) * split;
          const double turns = std::ceil(blocks / plan_.device.units);
          const double terms = static_cast<double>(terms_) / split;
          const double read = std::max(groups * bytes, 32.0) * terms;
          const double cycles = turns * read / kBytesOfACycle +
                                kLatency * std::ceil(terms / (8.0 * sharing)) +
                                (cluster > 1 ? kOfACluster : 0) +
                                kOfAPart * (std::max(1, threads / 32) + cluster) * turns;
          if (least > 0 && cycles >= least) continue;
          least = cycles;
          best = block;
        }
      }
    }
    return best;
  }

  /// Results whose terms lie together and are read at once.
  int widest_vector(DType dtype, std::size_t state_bytes) const {
    if (axes_.kept.empty() || axes_.kept.back().from != 1) return 1;
    Ints strides;
    for (std::size_t i = 0; i + 1 < axes_.kept.size(); ++i) strides.push_back(axes_.kept[i].from);
    for (const CopyAxis& axis : axes_.reduced) strides.push_back(axis.from);
    for (int vector = state_bytes > 8 ? 2 : static_cast<int>(16 / size_of(dtype)); vector > 1;
         vector /= 2) {
      const bool enough = vector == 2 || results_ / vector >= 2;
      if (vector <= 8 && enough && axes_.kept.back().extent % vector == 0 &&
          is_aligned(plan_, x_, strides, vector))
        return vector;
    }
    return 1;
  }

  const Plan& plan_;
  const Group& group_;
  const Node& node_;
  ValueId x_ = kNoValue, y_ = kNoValue;
  cpu::ReduceAxes axes_;
  std::int64_t results_ = 1, terms_ = 1;
};

}  // namespace

Row reduce() {
  KernelFamily family;
  family.name = "reduce";
  family.backend = "cuda";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.supports = supports;
  family.candidates = cpu::only_candidate;
  family.work = work;
  return {family,
          [](const Plan& plan, const KernelPlan& kernel) { return Builder(plan, kernel).build(); }};
}

}  // namespace braze::cuda
