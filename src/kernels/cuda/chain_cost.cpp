// Which tiles of a chain are worth trying, and how long they take.
#include <algorithm>
#include <cmath>
#include <set>

#include "graph/window.hpp"
#include "kernels/cuda/chain_schedule.hpp"

namespace braze::cuda {
namespace {

constexpr std::size_t kMostCandidates = 12;

/// Rows and columns of tiles, no larger than the result but to a multiple of what multiplies.
std::set<std::array<std::int64_t, 2>> tiles_of(const ChainProblem& problem) {
  std::set<std::array<std::int64_t, 2>> tiles;
  const auto& [height, width] = problem.last().out;
  for (const std::int64_t rows : {2, 4, 7, 8, 14, 16}) {
    for (const std::int64_t columns : {7, 8, 14, 16, 28, 32}) {
      if (rows * columns > 256) continue;
      tiles.insert({std::min(rows, height), std::min(columns, width)});
    }
  }
  return tiles;
}

std::vector<std::int64_t> passes_of(const ChainProblem& problem) {
  std::int64_t widest = problem.channels;
  for (const ChainStage& stage : problem.stages) widest = std::max(widest, stage.outputs);
  std::vector<std::int64_t> passes = {0};
  for (const std::int64_t pass : {32, 48, 64, 96, 128}) {
    if (pass < widest) passes.push_back(pass);
  }
  return passes;
}

}  // namespace

double chain_us(const ChainProblem& problem, const ChainSchedule& schedule,
                const Arithmetic& arithmetic, const Device& device) {
  // Reckoned from the rates of product tiles, from counts of instructions, and from chains on an
  // H200, of which start-up (first weights, then input) took 2 us; to be fitted. An SM issues 128
  // lanes each clock, as many as it reads bytes of shared memory.
  constexpr double kStartUs = 1.2, kTileUs = 0.8, kStageUs = 0.1, kMostRate = 0.75;
  constexpr double kFinishLanes = 8, kTapLanes = 2.6, kIssued = 0.6;
  // Of what wgmma reaches on sm_90, mma.sync reaches so much.
  const double peak = device.sm >= 90 ? 0.6 * arithmetic.peak : arithmetic.peak;
  const double units = device.units;
  const double tiles = static_cast<double>(schedule.tiles);
  const double at_once =
      std::clamp(std::ceil(tiles / units), 1.0, static_cast<double>(schedule.blocks_per_sm));
  const double lanes = kIssued * device.onchip_bandwidth / units / 1e6;  // each us
  double products = 0, others = 0, stages = 0;  // us of a tile, of an SM that has nothing else
  for (std::size_t i = 0; i < problem.stages.size(); ++i) {
    const ChainStage& stage = problem.stages[i];
    const ChainStep& step = schedule.steps[i];
    const ChainPart& to = schedule.parts[i + 1];
    const double pixels = static_cast<double>(to.rows * to.columns);
    const double outputs = static_cast<double>(stage.outputs);
    const double passes = static_cast<double>(step.passes);
    stages += kStageUs * passes;
    if (stage.kind == StageKind::kDense) {
      const double sums = static_cast<double>(step.row_tiles * step.product.rows *
                                              step.column_tiles * step.product.columns);
      const double depth = static_cast<double>(step.depth) * 32 / arithmetic.element_bytes();
      const double rate = std::min(kMostRate, at_once * step.product.rate) * peak / units;
      products += passes * 2 * sums * depth / rate * 1e6;
    } else {
      others += pixels * outputs * static_cast<double>(stage.taps()) * kTapLanes / lanes;
    }
    others += pixels * outputs * kFinishLanes / lanes;
  }
  const ChainPart& input = schedule.parts[0];
  double bytes = static_cast<double>(input.rows * input.columns * problem.channels) *
                 arithmetic.element_bytes();
  if (!schedule.resident) bytes += static_cast<double>(schedule.weight_bytes);
  const double brought = bytes / (device.cache_bandwidth / units) * 1e6;
  const double waves = std::ceil(tiles / (units * at_once));
  const double busy = at_once * std::max(products + others, brought);
  double us = kStartUs + waves * (kTileUs + stages + busy);
  if (schedule.resident)
    us += static_cast<double>(schedule.weight_bytes) * at_once / (device.cache_bandwidth / units) *
          1e6;
  return us;
}

std::vector<Candidate> chain_candidates(const ChainProblem& problem, const Arithmetic& arithmetic,
                                        const Device& device) {
  struct Choice {
    double us;
    Candidate candidate;
  };
  std::vector<Choice> choices;
  const auto consider = [&](Candidate candidate) -> std::optional<ChainSchedule> {
    auto schedule = chain_schedule(problem, arithmetic, candidate, device);
    if (schedule) {  // equal ones in the order they come
      const double us = chain_us(problem, *schedule, arithmetic, device);
      choices.insert(std::ranges::upper_bound(choices, us, {}, &Choice::us),
                     {us, std::move(candidate)});
    }
    return schedule;
  };
  for (const auto& [rows, columns] : tiles_of(problem)) {
    for (const std::int64_t pass : passes_of(problem)) {
      for (const std::int64_t load : {0, 1}) {
        if (load == 1 && (pass == 0 || problem.channels <= pass)) continue;
        Candidate candidate{{{"rows", rows},
                             {"columns", columns},
                             {"pass", pass},
                             {"load_in_parts", load},
                             {"resident", 0}}};
        const auto schedule = consider(candidate);
        if (!schedule || schedule->tiles < 2 * device.units) continue;
        candidate.parameters.back().value = 1;
        consider(std::move(candidate));
      }
    }
  }
  choices.resize(std::min(choices.size(), kMostCandidates));
  std::vector<Candidate> list;
  for (Choice& choice : choices) list.push_back(std::move(choice.candidate));
  return list;
}

}  // namespace braze::cuda
