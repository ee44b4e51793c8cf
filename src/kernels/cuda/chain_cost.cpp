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
  // Of one row, as the rows of a matrix are.
  for (const std::int64_t columns : {64, 128, 256}) {
    if (height == 1) tiles.insert({height, std::min(columns, width)});
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
  // Fitted to times of 144 kernels on an H200 (chain_sm80; three blocks of MobileNetV2, N = 1, 32),
  // which finished sums through shared memory and waited for each tile's input, as today's do not:
  // to be fitted anew.
  // Beside its work, a tile waits for its input, the start and end of each product tile, each slab
  // of the other stages, each slot of weights, each step of depth; its work takes longer beside
  // that of another block. An SM issues 128 lanes each clock, as many as it reads bytes of shared
  // memory.
  constexpr double kStartUs = 1.84, kTileUs = 0.69, kProductUs = 0.82, kOtherUs = 0.28;
  constexpr double kSlotUs = 0.025, kDepthUs = 0.0042, kBeside = 0.46;
  constexpr double kFinishLanes = 8.4, kTapLanes = 2.1, kIssued = 0.6;
  // Of what wgmma reaches on sm_90, mma.sync reaches so much.
  const double peak = device.sm >= 90 ? 0.6 * arithmetic.peak : arithmetic.peak;
  const double units = device.units;
  const double tiles = static_cast<double>(schedule.tiles);
  const double at_once =
      std::clamp(std::ceil(tiles / units), 1.0, static_cast<double>(schedule.blocks_per_sm));
  const double lanes = kIssued * device.onchip_bandwidth / units / 1e6;  // each us
  double waits = kTileUs, work = 0;  // us of a tile; of an SM that has nothing else
  for (std::size_t i = 0; i < problem.stages.size(); ++i) {
    const ChainStage& stage = problem.stages[i];
    const ChainStep& step = schedule.steps[i];
    const ChainPart& to = schedule.parts[i + 1];
    const double pixels = static_cast<double>(to.rows * to.columns);
    const double outputs = static_cast<double>(stage.outputs);
    const double passes = static_cast<double>(step.passes);
    if (stage.kind == StageKind::kDense) {
      const double count = passes * static_cast<double>(step.row_tiles * step.column_tiles);
      const double sums = static_cast<double>(step.product.rows * step.product.columns);
      const double steps = static_cast<double>(step.depth);
      const double rate = step.product.rate * peak / units;
      waits += count * (kProductUs + steps * kDepthUs);
      work += count * 2 * sums * steps * 32 / arithmetic.element_bytes() / rate * 1e6;
      work += count * sums * kFinishLanes / lanes;
    } else {
      waits += passes * kOtherUs;
      const double results = pixels * outputs, taps = static_cast<double>(stage.taps());
      work += results * (taps * kTapLanes + kFinishLanes) / lanes;
    }
    if (stage.stored && i + 1 < problem.stages.size())
      work += pixels * outputs * static_cast<double>(arithmetic.element_bytes()) * units /
              (device.cache_bandwidth / 1e6);
  }
  if (!schedule.resident) waits += static_cast<double>(schedule.slots) * kSlotUs;
  const ChainPart& input = schedule.parts[0];
  const double bandwidth = device.cache_bandwidth / units / 1e6;  // each us
  const double weights = static_cast<double>(schedule.weight_bytes) / bandwidth;
  work += static_cast<double>(input.rows * input.columns * problem.channels) *
          arithmetic.element_bytes() / bandwidth;
  if (!schedule.resident) work += weights;
  const double waves = std::ceil(tiles / (units * at_once));
  return kStartUs + waves * (waits + work * (1 + kBeside * (at_once - 1))) +
         (schedule.resident ? weights * at_once : 0);
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
