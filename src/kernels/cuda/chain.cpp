// Chains of convolutions in one kernel, tile by tile; see device/chain.cuh. Two families that
// differ in what multiplies.
//
//   chain_sm80      mma.sync: fp16, bf16, tf32; sm_80 and up
//   chain_portable  wmma: fp16 below sm_80; fused multiply-adds: fp32, bf16 below sm_80
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "graph/window.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/chain_schedule.hpp"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels/cuda/window.hpp"

namespace braze::cuda {
namespace {

/// What multiplies numbers of a type on a device.
Multiplier multiplier_of(DType dtype, const Device& device) {
  if (device.sm >= 80 && (dtype != DType::kFloat32 || device.tf32)) return Multiplier::kMma;
  return dtype == DType::kFloat16 ? Multiplier::kWmma : Multiplier::kFma;
}
Arithmetic arithmetic_of(const ChainProblem& problem, const Device& device) {
  const Multiplier multiplier = multiplier_of(problem.dtype, device);
  Arithmetic arithmetic = arithmetic_of(multiplier, problem.dtype, device);
  if (multiplier == Multiplier::kFma) arithmetic.dtype = problem.dtype;  // as it lies on chip
  if (multiplier == Multiplier::kFma) arithmetic.peak = device.flops_fp32;
  return arithmetic;
}

/// Do the epilogues fit a kernel's parameters?
Support takes_epilogues(const Graph& graph, const ChainProblem& problem) {
  for (const ChainStage& stage : problem.stages) {
    int operands = stage.bias == kNoValue ? 0 : 1, values = 0;
    for (const EpilogueStep& step : stage.epilogue.steps) {
      if (step.operand != kNoValue) ++operands;
      if (step.unary) values += 2;
    }
    if (operands > device::kMaxOperands || values > device::kMaxValues)
      return Support::no(
          "epilogue-length",
          fmt::format("'{}' has {} operands and {} steps behind it", graph.value(stage.result).name,
                      operands, stage.epilogue.steps.size()));
    std::set<std::size_t> on_chip;
    for (const ChainOperand& operand : stage.operands) {
      if (operand.source.of != ChainSource::Of::kMemory)
        on_chip.insert(operand.source.of == ChainSource::Of::kInput ? 0 : operand.source.stage + 1);
    }
    if (on_chip.size() > 1)
      return Support::no("operands", fmt::format("'{}' is made of {} images on chip; at most one",
                                                 graph.value(stage.result).name, on_chip.size()));
  }
  return Support::yes();
}

template <bool kPortable>
Support joins(const Graph& graph, const Group& group, const Device& device) {
  if (group.members.size() < 2) return Support::no("", "");
  Support why;
  const std::optional<ChainProblem> problem = read_chain(graph, group, why);
  // Of the two families one answers.
  const DType dtype = graph.value(graph.node(group.members[0].anchor).inputs[0]).dtype;
  if (kPortable == (multiplier_of(dtype, device) == Multiplier::kMma)) return Support::no("", "");
  if (!problem) return why;
  if (problem->stages.size() > device::kMostStages)
    return Support::no("members", fmt::format("{} members; a kernel has at most {} stages",
                                              problem->stages.size(), device::kMostStages));
  if (Support support = takes_epilogues(graph, *problem); !support.ok) return support;
  if (chain_candidates(*problem, arithmetic_of(*problem, device), device).empty())
    return Support::no(
        "on-chip", fmt::format("no tile of '{}' fits {:.0f} KB with all that it needs of {} "
                               "stages",
                               graph.value(problem->last().result).name, device.onchip_bytes / 1024,
                               problem->stages.size()));
  return Support::yes();
}

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device& device) {
  const ChainProblem problem = read_chain(graph, group);
  return chain_candidates(problem, arithmetic_of(problem, device), device);
}

ChainSchedule schedule_of(const ChainProblem& problem, const Candidate& candidate,
                          const Device& device) {
  auto schedule = chain_schedule(problem, arithmetic_of(problem, device), candidate, device);
  ensure(schedule.has_value(), "a planned chain has a schedule");
  return std::move(*schedule);
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const ChainProblem problem = read_chain(graph, group);
  const Arithmetic arithmetic = arithmetic_of(problem, device);
  const ChainSchedule schedule = schedule_of(problem, candidate, device);
  const std::vector<double> recomputed = problem.tiles.recomputed(schedule.rows, schedule.columns);
  double flops = 0;
  for (std::size_t i = 0; i < problem.stages.size(); ++i) {
    const ChainStage& stage = problem.stages[i];
    flops += stage.flops(static_cast<double>(problem.batch * stage.out[0] * stage.out[1])) *
             recomputed[i];
  }
  const double us = chain_us(problem, schedule, arithmetic, device);
  Work work = cpu::streaming_work(graph, group, flops,
                                  std::clamp(flops / (us * 1e-6 * arithmetic.peak), 1e-9, 1.0));
  work.units = static_cast<double>(schedule.tiles);
  return work;
}

Tiling tiling(const Graph&, const Group&, const Candidate& candidate, const Device&) {
  return {candidate.get("rows"), candidate.get("columns"), 0};
}

int to_int(std::int64_t n) { return static_cast<int>(n); }

class Builder {
 public:
  Builder(const Plan& plan, const KernelPlan& kernel)
      : plan_(plan),
        kernel_(kernel),
        problem_(read_chain(plan.graph, kernel.group)),
        arithmetic_(arithmetic_of(problem_, plan.device)),
        schedule_(schedule_of(problem_, kernel.candidate, plan.device)),
        element_(device_type(problem_.dtype)) {}

  Kernel build() {
    for (std::size_t i = 0; i < problem_.stages.size(); ++i) add_epilogue(i);
    set_parts();
    for (std::size_t i = 0; i < problem_.stages.size(); ++i) set_stage(i);
    const ChainWeights weights = pack_chain(plan_.graph, problem_, schedule_, arithmetic_);
    set_weights(weights);
    const std::string load = add_input();

    const bool mma = arithmetic_.multiplier == Multiplier::kMma;
    const bool wmma = arithmetic_.multiplier == Multiplier::kWmma;
    emit(result_, kernel_.family,
         {mma    ? "chain_sm80.cuh"
          : wmma ? "chain_portable.cuh"
                 : "chain.cuh"},
         declarations_ + chain_source(load), "ChainParameters", "chain<Chain>",
         device::kChainThreads, schedule_.blocks_per_sm);
    const std::int64_t resident =
        static_cast<std::int64_t>(plan_.device.units) * schedule_.blocks_per_sm;
    result_.grid.x = static_cast<std::uint32_t>(std::min(schedule_.tiles, resident));
    result_.shared_bytes = static_cast<std::uint32_t>(schedule_.shared_bytes);
    result_.overlaps = true;
    Parameters parameters(p_);
    parameters.point(p_.x, address_of(plan_, kernel_.group, problem_.input, result_));
    parameters.point(p_.weights, add_constant(result_, weights.bytes));
    const auto* order = reinterpret_cast<const std::byte*>(weights.order.data());
    parameters.point(
        p_.order,
        add_constant(result_, {order, order + weights.order.size() * sizeof(device::ChainSlot)}));
    for (std::size_t i = 0; i < problem_.stages.size(); ++i) {
      const ChainStage& stage = problem_.stages[i];
      if (stage.stored)
        parameters.point(p_.stage[i].y.data,
                         {Address::Of::kOutput, cpu::output_index(kernel_.group, stage.result), 0});
      epilogues_[i].point(parameters, p_.stage[i].e);
    }
    parameters.move_to(result_);
    return std::move(result_);
  }

 private:
  const Value& value(ValueId id) const { return plan_.graph.value(id); }
  std::size_t image_of(const ChainSource& source) const {
    return source.of == ChainSource::Of::kStage ? source.stage + 1 : 0;
  }
  /// Channels that a stage finishes at once.
  int vector_of(const ChainStage& stage) const {
    if (stage.kind != StageKind::kDense) return arithmetic_.chunk();
    return arithmetic_.multiplier == Multiplier::kFma ? 1 : 8;
  }
  /// The input is on chip as a whole.
  bool holds_input() const { return schedule_.loops.empty() || !schedule_.loops[0].load; }

  void add_epilogue(std::size_t i) {
    const ChainStage& stage = problem_.stages[i];
    const Group::Member member = member_of(kernel_.group, stage);
    const int vector = vector_of(stage);
    EpilogueEmitter& epilogue = epilogues_.emplace_back(plan_, kernel_, member, result_, vector);
    bool on_chip = false;
    for (const ChainOperand& operand : stage.operands) {
      const bool input = operand.source.of == ChainSource::Of::kInput && holds_input();
      if (operand.source.of != ChainSource::Of::kStage && !input) continue;
      on_chip = true;
      operand_of_[i] = image_of(operand.source);
      epilogue.keep_on_chip(
          operand.id,
          fmt::format(
              "float x[V]; load_vector<{0}, V>(x, reinterpret_cast<const {0}*>(at.staged));",
              element_));
    }
    epilogue.add_bias(stage.bias);
    epilogue.add_steps(member);
    p_.stage[i].e = epilogue.parameters();
    const bool last = i + 1 == problem_.stages.size();
    const DType stored = value(stage.result).dtype;
    declarations_ += epilogue.source(fmt::format("Epilogue{}", i));
    declarations_ += fmt::format(
        "using Sink{} = ChainSink<{}, {}, {}, {}, Store::{}, {}>;\n", i, element_, !last,
        stage.stored, device_type(stored),
        stage.stored && takes_vectors(plan_, stage.result, vector) ? "kVector" : "kEach", on_chip);
  }

  void set_parts() {
    for (std::size_t i = 0; i < schedule_.parts.size(); ++i) {
      const ChainPart& part = schedule_.parts[i];
      device::ChainImage& image = p_.image[i];
      image.at = to_int(part.at);
      image.pitch = to_int(part.pitch);
      image.rows = to_int(part.rows);
      image.columns = to_int(part.columns);
      const auto& extent = i == 0 ? problem_.extent : problem_.stages[i - 1].out;
      for (std::size_t axis = 0; axis < 2; ++axis) {
        image.extent[axis] = to_int(extent[axis]);
        image.first[axis] = to_int(part.first[axis]);
        image.step[axis] = to_int(part.step[axis]);
      }
      image.channels = to_int(i == 0 ? problem_.channels : problem_.stages[i - 1].outputs);
      image.held = to_int(part.held);
      image.across = divisor_of(part.columns);
      image.chunks = divisor_of(part.held / arithmetic_.chunk());
    }
  }

  void set_stage(std::size_t i) {
    const ChainStage& stage = problem_.stages[i];
    const ChainStep& step = schedule_.steps[i];
    const ChainPart& to = schedule_.parts[i + 1];
    const ChainPart& from = schedule_.parts[image_of(stage.reads)];
    device::ChainStage& s = p_.stage[i];
    for (std::size_t axis = 0; axis < 2; ++axis) {
      s.kernel[axis] = to_int(stage.kernel[axis]);
      s.stride[axis] = to_int(stage.stride[axis]);
      s.dilation[axis] = to_int(stage.dilation[axis]);
      s.shift[axis] =
          to_int(to.first[axis] * stage.stride[axis] - stage.pad[axis] - from.first[axis]);
      s.counted_begin[axis] = to_int(stage.counted[axis].begin);
      s.counted_end[axis] = to_int(stage.counted[axis].end);
      if (const auto found = operand_of_.find(i); found != operand_of_.end())
        s.operand_shift[axis] = to_int(to.first[axis] - schedule_.parts[found->second].first[axis]);
    }
    s.line = divisor_of(step.line);
    s.rows = to_int(step.rows);
    s.row_tiles = to_int(step.row_tiles);
    s.column_tiles = to_int(step.column_tiles);
    s.depth = to_int(step.depth);
    s.of_tap = to_int(step.of_tap);
    s.table = to_int(step.table);
    s.outputs = to_int(stage.outputs);
    s.passes = to_int(step.passes);
    s.slab = to_int(step.slab);
    s.runs = divisor_of(ceil_div(to.columns, kRun));
    if (stage.stored) s.y = output_parameters(plan_, stage.result);
  }

  void set_weights(const ChainWeights& weights) {
    p_.slots = to_int(std::ssize(weights.order));
    p_.weight_bytes = to_int(std::ssize(weights.bytes));
    ensure(p_.slots == schedule_.slots && p_.weight_bytes == schedule_.weight_bytes,
           "the weights of a chain are those of its schedule");
    p_.tiles = to_int(schedule_.tiles);
    p_.tiles_across = divisor_of(schedule_.across);
    p_.tiles_down = divisor_of(schedule_.down);
    p_.weights_at = to_int(schedule_.weights_at);
    p_.table_at = to_int(schedule_.table_at);
    p_.scratch_at = to_int(schedule_.scratch_at);
    p_.table_entries = to_int(schedule_.table_entries);
  }

  /// The call that loads the input, but for the first channel.
  std::string add_input() {
    const ValueId x = loaded_value(plan_, kernel_.group, problem_.input);
    const ImageAxes axes = image_axes(plan_, x);
    p_.x_n = axes.stride_n;
    p_.x_row = axes.stride[1];
    p_.x_column = axes.stride[2];
    p_.x_channel = axes.stride_channel;
    const std::array strides = {axes.stride_n, axes.stride[1], axes.stride[2]};
    const char* load = "kElements";
    if (axes.stride_channel == 1 && is_aligned(plan_, x, strides, arithmetic_.chunk()))
      load = arithmetic_.async && value(x).dtype == problem_.dtype ? "kAsync" : "kVectors";
    return fmt::format("chain_load<{}, {}, Load::{}>", device_type(value(x).dtype), element_, load);
  }

  std::string product_of(std::size_t i) const {
    const ChainProduct& product = schedule_.steps[i].product;
    const char* policy = arithmetic_.multiplier == Multiplier::kMma    ? "ChainMma"
                         : arithmetic_.multiplier == Multiplier::kWmma ? "ChainWmma"
                                                                       : "ChainFma";
    return fmt::format("{}<{}, {}, {}, {}, {}>", policy, arithmetic_.tf32 ? "tf32" : element_,
                       product.rows, product.columns, product.down, product.across);
  }

  /// "const ChainWork w1{...};"
  std::string work_of(std::size_t i, const std::string& channel) const {
    const auto found = operand_of_.find(i);
    return fmt::format(
        "const ChainWork w{0}{{p.stage[{0}], p.image[{1}], p.image[{2}], p.image[{3}], tile, "
        "{4}}};",
        i, image_of(problem_.stages[i].reads), i + 1,
        found == operand_of_.end() ? 0 : found->second, channel);
  }

  std::string call_of(std::size_t i) const {
    const ChainStage& stage = problem_.stages[i];
    const std::string finish = fmt::format("Epilogue{0}, Sink{0}", i);
    if (stage.kind == StageKind::kDense)
      return fmt::format("chain_dense<{}, {}>(w{}, weights);", product_of(i), finish, i);
    if (stage.kind == StageKind::kDepthwise) {
      const bool known = stage.kernel[1] <= 5 && stage.stride[1] <= 2 && stage.dilation[1] == 1;
      return fmt::format("chain_depthwise<{}, {}, {}, {}>(w{}, weights);",
                         known ? stage.kernel[1] : 0, known ? stage.stride[1] : 0, kRun, finish, i);
    }
    const char* pool = stage.kind == StageKind::kMaxPool       ? "kMax"
                       : stage.kind == StageKind::kAveragePool ? "kAverage"
                                                               : "kNone";
    return fmt::format("chain_pool<ChainPool::{}, {}>(w{});", pool, finish, i);
  }

  std::string chain_source(const std::string& load) const {
    const bool ahead = load.ends_with("kAsync>") && holds_input() &&
                       schedule_.input_free + 1 < problem_.stages.size();
    const std::string arrived = "chain_arrived<" + load.substr(load.rfind("Load::")) + "();";
    std::string tables, body;
    const auto add = [&body](int depth, const std::string& line) {
      body += std::string(static_cast<std::size_t>(depth) * 2, ' ') + line + "\n";
    };
    if (holds_input()) {
      if (!ahead) add(2, "bring(p, tile);");
      add(2, arrived);
    }
    for (std::size_t i = 0; i < problem_.stages.size(); ++i) {
      if (problem_.stages[i].kind == StageKind::kDense)
        tables += fmt::format("    chain_table(p.stage[{}], p.image[{}], table);\n", i,
                              image_of(problem_.stages[i].reads));
      const ChainLoop* loop = schedule_.loop_of(i);
      if (loop == nullptr) {
        add(2, work_of(i, "0"));
        add(2, call_of(i));
      } else {
        const std::string pass = fmt::format("pass * p.image[{}].held", loop->last);
        if (i == loop->first) {
          add(2, fmt::format("{} sums{};", product_of(loop->last), loop->last));
          add(2, work_of(loop->last, "0"));
          add(2, fmt::format("chain_rows(sums{0}, w{0}, 0);", loop->last));
          add(2,
              fmt::format("for (int pass = 0; pass < p.stage[{}].passes; ++pass) {{", loop->last));
          if (loop->load) {
            add(3, fmt::format("{}(p, p.image[0], tile, {});", load, pass));
            add(3, arrived);
          }
        }
        if (i < loop->last) {
          add(3, work_of(i, pass));
          add(3, call_of(i));
          add(3, "__syncthreads();");
          continue;
        }
        add(3, fmt::format("chain_multiply(sums{0}, w{0}, weights);", i));
        add(3, "__syncthreads();");
        add(2, "}");
        add(2, fmt::format("chain_finish<Epilogue{0}, Sink{0}>(sums{0}, w{0}, 0, 0);", i));
      }
      if (i + 1 < problem_.stages.size()) add(2, "__syncthreads();");
      if (ahead && i == schedule_.input_free)
        add(2, "if (next < p.tiles) bring(p, ChainTile(p, next, tile.shared));");
    }
    return fmt::format(
        "\nstruct Chain {{\n"
        "  using Weights = {};\n"
        "  static __device__ __forceinline__ void tables(const ChainParameters& p, int* table) {{\n"
        "{}  }}\n"
        "  static constexpr bool kAhead = {};\n"
        "  static __device__ __forceinline__ void bring(const ChainParameters& p, const ChainTile& "
        "tile) {{\n"
        "    {}(p, p.image[0], tile, 0);\n"
        "  }}\n"
        "  static __device__ __forceinline__ void tile(const ChainParameters& p, const ChainTile& "
        "tile,\n"
        "                                              int next, Weights& weights) {{\n"
        "{}  }}\n"
        "}};\n",
        schedule_.resident  ? "ChainResident"
        : arithmetic_.async ? "ChainRing<4>"
                            : "ChainPair",
        tables, ahead, load, body);
  }

  static constexpr std::int64_t kRun = 4;  // adjacent pixels that a thread makes, depthwise

  const Plan& plan_;
  const KernelPlan& kernel_;
  ChainProblem problem_;
  Arithmetic arithmetic_;
  ChainSchedule schedule_;
  std::string element_;
  Kernel result_;
  device::ChainParameters p_{};
  std::vector<EpilogueEmitter> epilogues_;
  std::map<std::size_t, std::size_t> operand_of_;  // image on chip, by stage
  std::string declarations_;
};

template <bool kPortable>
Row row(std::string_view name) {
  KernelFamily family = image_family(name);
  family.supports = [](const Graph&, const Node&, const Device&) {
    return Support::no("members", "");  // runs groups of several only
  };
  family.stores = true;
  family.joins = joins<kPortable>;
  family.candidates = candidates;
  family.work = work;
  family.tiling = tiling;
  return {family,
          [](const Plan& plan, const KernelPlan& kernel) { return Builder(plan, kernel).build(); }};
}

}  // namespace

Row chain_sm80() { return row<false>("chain_sm80"); }
Row chain_portable() { return row<true>("chain_portable"); }

}  // namespace braze::cuda
