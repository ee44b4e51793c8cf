#include "kernels/cuda/chain_schedule.hpp"

#include <algorithm>
#include <span>

#include "graph/window.hpp"

namespace braze::cuda {
namespace {

constexpr std::int64_t kScratchBytes = device::kChainThreads / 32 * 16 * 20 * 4;  // of wmma
constexpr std::int64_t kStepBytes = 32;
constexpr int kRing = 4;  // slots

// Warps hold at most 64 x 32 sums, which leaves room for two blocks.
constexpr std::array kWarpProducts = {
    ChainProduct{256, 64, 4, 2, 0.6},  ChainProduct{128, 128, 2, 4, 0.6},
    ChainProduct{64, 256, 1, 8, 0.6},  ChainProduct{256, 32, 8, 1, 0.5},
    ChainProduct{128, 96, 4, 2, 0.55}, ChainProduct{128, 64, 4, 2, 0.5},
    ChainProduct{64, 192, 2, 4, 0.55}, ChainProduct{64, 128, 2, 4, 0.5},
    ChainProduct{32, 256, 1, 8, 0.5},  ChainProduct{128, 48, 8, 1, 0.4},
    ChainProduct{128, 32, 4, 2, 0.35}, ChainProduct{64, 96, 4, 2, 0.4},
    ChainProduct{64, 64, 2, 4, 0.35},  ChainProduct{32, 128, 1, 8, 0.35},
    ChainProduct{16, 256, 1, 8, 0.3},  ChainProduct{128, 16, 8, 1, 0.25},
    ChainProduct{64, 32, 4, 2, 0.25},  ChainProduct{32, 64, 2, 4, 0.25},
    ChainProduct{16, 128, 1, 8, 0.2},
};
constexpr std::array kThreadProducts = {
    ChainProduct{128, 64, 16, 16, 0.6}, ChainProduct{64, 64, 16, 16, 0.5},
    ChainProduct{128, 32, 16, 16, 0.4}, ChainProduct{64, 32, 16, 16, 0.35},
    ChainProduct{32, 64, 16, 16, 0.35}, ChainProduct{64, 16, 16, 16, 0.2},
    ChainProduct{32, 32, 16, 16, 0.25}, ChainProduct{32, 128, 16, 16, 0.45},
};

std::span<const ChainProduct> products_of(Multiplier multiplier) {
  if (multiplier == Multiplier::kFma) return kThreadProducts;
  return kWarpProducts;
}

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return ceil_div(n, multiple) * multiple;
}

/// Is a stage's channel k made from channel k of its image only?
bool is_channelwise(const ChainStage& stage) { return stage.kind != StageKind::kDense; }

bool reads_on_chip(const ChainStage& stage, std::size_t image) {
  return std::ranges::any_of(stage.operands, [image](const ChainOperand& one) {
    return one.source.of == ChainSource::Of::kStage && one.source.stage + 1 == image;
  });
}

class Scheduler {
 public:
  Scheduler(const ChainProblem& problem, const Arithmetic& arithmetic, const Candidate& candidate,
            const Device& device)
      : problem_(problem), arithmetic_(arithmetic), device_(device) {
    s_.rows = candidate.get("rows");
    s_.columns = candidate.get("columns");
    s_.pass = candidate.get("pass");
    s_.resident = candidate.get("resident") != 0;
    load_in_parts_ = candidate.get("load_in_parts") != 0;
  }

  std::optional<ChainSchedule> schedule() {
    if (s_.rows <= 0 || s_.columns <= 0 || s_.pass < 0) return std::nullopt;
    if (!find_parts() || !find_loops()) return std::nullopt;
    hold_channels();
    if (!choose_products()) return std::nullopt;
    place();
    count_slots();
    return finish() ? std::optional(std::move(s_)) : std::nullopt;
  }

 private:
  const ChainStage& stage(std::size_t i) const { return problem_.stages[i]; }
  std::size_t image_of(const ChainSource& source) const {
    return source.of == ChainSource::Of::kStage ? source.stage + 1 : 0;
  }

  /// The part of every image that tile t needs is the same for all t, but for its place.
  bool find_parts() {
    const GroupTiles& tiles = problem_.tiles;
    const ChainStage& last = problem_.last();
    s_.down = ceil_div(last.out[0], s_.rows);
    s_.across = ceil_div(last.out[1], s_.columns);
    s_.tiles = problem_.batch * s_.down * s_.across;
    const auto regions = [&](std::int64_t t) {
      return tiles.uncut({Interval{t * s_.rows, (t + 1) * s_.rows},
                          Interval{t * s_.columns, (t + 1) * s_.columns}});
    };
    const std::vector<Region> zero = regions(0), one = regions(1), far = regions(1000);
    s_.parts.resize(problem_.stages.size() + 1);
    for (std::size_t i = 0; i < s_.parts.size(); ++i) {
      const ValueId id = i == 0 ? problem_.input : stage(i - 1).result;
      const auto found = std::ranges::find(tiles.images(), id, &GroupTiles::Image::id);
      if (found == tiles.images().end()) return false;
      const auto k = static_cast<std::size_t>(found - tiles.images().begin());
      ChainPart& part = s_.parts[i];
      for (std::size_t axis = 0; axis < 2; ++axis) {
        part.first[axis] = zero[k][axis].begin;
        part.step[axis] = one[k][axis].begin - zero[k][axis].begin;
        if (far[k][axis].begin != part.first[axis] + 1000 * part.step[axis] ||
            far[k][axis].size() != zero[k][axis].size() ||
            one[k][axis].size() != zero[k][axis].size())
          return false;
      }
      part.rows = zero[k][0].size();
      part.columns = zero[k][1].size();
      if (part.rows == 0 || part.columns == 0) return false;
    }
    return true;
  }

  /// The dense stage that sums up the channels of an image, if only channelwise stages lie between
  /// and nobody else reads what they make; else none.
  std::optional<std::size_t> summed_by(std::size_t image) const {
    for (std::size_t i = image; i < problem_.stages.size(); ++i) {
      if (image_of(stage(i).reads) != i) return std::nullopt;
      for (std::size_t other = 0; other < problem_.stages.size(); ++other) {
        const bool reads = image_of(stage(other).reads) == i && other != i;
        if (reads || (i > 0 && reads_on_chip(stage(other), i))) return std::nullopt;
      }
      if (!is_channelwise(stage(i))) return i;
      if (i + 1 == problem_.stages.size()) return std::nullopt;
    }
    return std::nullopt;
  }

  bool find_loops() {
    s_.steps.resize(problem_.stages.size());
    if (s_.pass == 0) return !load_in_parts_;
    if (load_in_parts_) {
      const auto by = summed_by(0);
      if (!by || problem_.channels <= s_.pass) return false;
      s_.loops.push_back({0, *by, true});
    }
    for (std::size_t i = s_.loops.empty() ? 0 : s_.loops[0].last + 1; i < problem_.stages.size();
         ++i) {
      if (stage(i).kind != StageKind::kDense || stage(i).outputs <= s_.pass) continue;
      const auto by = i + 1 < problem_.stages.size() ? summed_by(i + 1) : std::nullopt;
      if (!by) continue;
      s_.loops.push_back({i, *by, false});
      i = *by;
    }
    if (s_.loops.empty()) return false;  // the same as without passes
    for (const ChainLoop& loop : s_.loops) {
      const std::int64_t channels = stage(loop.last).channels;
      for (std::size_t i = loop.first; i <= loop.last; ++i)
        s_.steps[i].passes = ceil_div(channels, s_.pass);
    }
    return true;
  }

  /// Is an image held in parts of its channels?
  bool in_parts(std::size_t image) const {
    return std::ranges::any_of(s_.loops, [image](const ChainLoop& loop) {
      return loop.load ? image <= loop.last : image > loop.first && image <= loop.last;
    });
  }

  void hold_channels() {
    const std::int64_t step = kStepBytes / arithmetic_.element_bytes();
    for (std::size_t i = 0; i < s_.parts.size(); ++i) {
      ChainPart& part = s_.parts[i];
      const std::int64_t channels = i == 0 ? problem_.channels : stage(i - 1).outputs;
      part.held = round_up(in_parts(i) ? s_.pass : channels, step);
      // Pixels one after another lie in different banks; wmma takes them at multiples of 32 bytes.
      const std::int64_t unit = arithmetic_.multiplier == Multiplier::kWmma ? 32 : 16;
      part.pitch = (part.held * arithmetic_.element_bytes() / unit | 1) * unit;
      part.on_chip = i + 1 < s_.parts.size();
      part.bytes = part.rows * part.columns * part.pitch;
    }
  }

  bool choose_products() {
    for (std::size_t i = 0; i < problem_.stages.size(); ++i) {
      ChainStep& step = s_.steps[i];
      const ChainPart& to = s_.parts[i + 1];
      const ChainPart& from = s_.parts[image_of(stage(i).reads)];
      const std::int64_t taps = stage(i).taps();
      if (stage(i).kind == StageKind::kDepthwise) {
        const std::int64_t chunk = arithmetic_.chunk();
        const std::int64_t most =
            device::kChainSlotBytes / (taps * arithmetic_.element_bytes()) / chunk * chunk;
        step.slab = std::min(most, to.held);
        if (step.slab <= 0) return false;
      }
      if (stage(i).kind != StageKind::kDense) continue;
      step.line =
          arithmetic_.multiplier == Multiplier::kWmma ? round_up(to.columns, 16) : to.columns;
      step.rows = to.rows * step.line;
      step.of_tap = from.held * arithmetic_.element_bytes() / kStepBytes;
      step.depth = step.of_tap * taps;
      if (step.depth > 1 << 14) return false;
      step.table = s_.table_entries;
      s_.table_entries += step.depth;
      if (!choose_product(i)) return false;
      // wmma reads whole fragments of a line, past the part's end.
      const std::array<std::int64_t, 2> end = {to.rows, step.line};
      std::int64_t pixel = 0;
      for (std::size_t axis = 0; axis < 2; ++axis) {
        const std::int64_t at = (end[axis] - 1) * stage(i).stride[axis] + shift(i, axis) +
                                (stage(i).kernel[axis] - 1) * stage(i).dilation[axis];
        pixel = pixel * from.columns + at;
      }
      ChainPart& read = s_.parts[image_of(stage(i).reads)];
      read.bytes = std::max(read.bytes, (pixel + 1) * read.pitch);
    }
    return true;
  }

  std::int64_t shift(std::size_t i, std::size_t axis) const {
    const ChainPart& from = s_.parts[image_of(stage(i).reads)];
    return s_.parts[i + 1].first[axis] * stage(i).stride[axis] - stage(i).pad[axis] -
           from.first[axis];
  }

  bool choose_product(std::size_t i) {
    ChainStep& step = s_.steps[i];
    const ChainLoop* loop = s_.loop_of(i);
    const bool sums = loop != nullptr && loop->last == i;
    const bool makes = loop != nullptr && !sums;
    double best = 0;
    for (const ChainProduct& product : products_of(arithmetic_.multiplier)) {
      const std::int64_t down = ceil_div(step.rows, product.rows);
      const std::int64_t across = makes ? 1 : ceil_div(stage(i).outputs, product.columns);
      if (sums && (down > 1 || across > 1)) continue;
      if (makes && product.columns != s_.pass) continue;
      const double time =
          static_cast<double>(down * across * product.rows * product.columns) / product.rate;
      if (best != 0 && time >= best) continue;
      best = time;
      step.product = product;
      step.row_tiles = down;
      step.column_tiles = across;
    }
    return best != 0;
  }

  /// Gives images places in shared memory: those that live at the same time lie beside each other.
  void place() {
    struct Life {
      std::size_t from, to;
    };
    std::vector<Life> lives;
    for (std::size_t i = 0; i < s_.parts.size(); ++i) {
      Life life{i, i};
      for (std::size_t k = 0; k < problem_.stages.size(); ++k) {
        if (image_of(stage(k).reads) == i || reads_on_chip(stage(k), i) ||
            (i == 0 && reads_input(k)))
          life.to = std::max(life.to, k + 1);
      }
      for (const ChainLoop& loop : s_.loops) {
        // Everything that is used in a loop lives through all of it.
        const std::size_t begin = loop.load ? 0 : loop.first + 1, end = loop.last + 1;
        if (life.from > end || life.to < begin) continue;
        life = {std::min(life.from, begin), std::max(life.to, end)};
      }
      lives.push_back(life);
    }
    s_.input_free = lives[0].to - 1;
    std::int64_t end = 0;
    for (std::size_t i = 0; i < s_.parts.size(); ++i) {
      ChainPart& part = s_.parts[i];
      if (!part.on_chip) continue;
      part.bytes = round_up(part.bytes, 32);
      bool moved = true;
      while (moved) {
        moved = false;
        for (std::size_t other = 0; other < i; ++other) {
          const ChainPart& there = s_.parts[other];
          const bool together =
              lives[other].from <= lives[i].to && lives[i].from <= lives[other].to;
          if (!together || there.at + there.bytes <= part.at || part.at + part.bytes <= there.at)
            continue;
          part.at = there.at + there.bytes;
          moved = true;
        }
      }
      if (i > 0 && part.at < s_.parts[0].bytes) s_.input_free = problem_.stages.size() - 1;
      end = std::max(end, part.at + part.bytes);
    }
    s_.scratch_at = round_up(end, 32);
    s_.weights_at =
        s_.scratch_at + (arithmetic_.multiplier == Multiplier::kWmma ? kScratchBytes : 0);
  }

  /// An operand of the stage is the chain's input, on chip.
  bool reads_input(std::size_t k) const {
    return !in_parts(0) && std::ranges::any_of(stage(k).operands, [](const ChainOperand& one) {
      return one.source.of == ChainSource::Of::kInput;
    });
  }

  void count_slots() {
    for (std::size_t i = 0; i < problem_.stages.size(); ++i) {
      const ChainStep& step = s_.steps[i];
      if (stage(i).kind == StageKind::kDense) {
        const std::int64_t runs = step.passes * step.column_tiles;
        s_.slots += runs * step.row_tiles * ceil_div(step.depth, chain_steps_of_slot(step));
        s_.weight_bytes += runs * step.depth * step.product.columns * kStepBytes;
      } else if (stage(i).kind == StageKind::kDepthwise) {
        const std::int64_t slabs = step.passes * ceil_div(s_.parts[i + 1].held, step.slab);
        s_.slots += slabs;
        s_.weight_bytes += slabs * stage(i).taps() * step.slab * arithmetic_.element_bytes();
      }
    }
  }

  bool finish() {
    const std::int64_t ring = (arithmetic_.async ? kRing : 2) * device::kChainSlotBytes;
    constexpr std::int64_t kMostResident = 1 << 20;
    if (s_.resident && s_.weight_bytes > kMostResident) return false;
    s_.table_at = round_up(s_.weights_at + (s_.resident ? s_.weight_bytes : ring), 16);
    s_.shared_bytes = round_up(s_.table_at + s_.table_entries * 4, 16);
    const auto room = static_cast<std::int64_t>(device_.onchip_bytes);
    if (s_.shared_bytes > room - 1024) return false;
    s_.blocks_per_sm = 2 * (s_.shared_bytes + 1024) <= room + 1024 && few_registers() ? 2 : 1;
    return s_.tiles < 1 << 30 && s_.slots < 1 << 20;
  }

  /// Do the sums of a thread and what it needs beside them fit 128 registers?
  bool few_registers() const {
    const auto sums = [this](std::size_t i) {
      return s_.steps[i].product.rows * s_.steps[i].product.columns / device::kChainThreads;
    };
    for (std::size_t i = 0; i < s_.steps.size(); ++i) {
      const ChainLoop* loop = s_.loop_of(i);
      const bool inside = loop != nullptr && i < loop->last;  // the loop's sums are kept meanwhile
      if (inside ? sums(i) + sums(loop->last) > 40 : sums(i) > 48) return false;
    }
    return true;
  }

  const ChainProblem& problem_;
  const Arithmetic& arithmetic_;
  const Device& device_;
  bool load_in_parts_ = false;
  ChainSchedule s_;
};

}  // namespace

const ChainLoop* ChainSchedule::loop_of(std::size_t stage) const {
  const auto found = std::ranges::find_if(
      loops, [stage](const ChainLoop& loop) { return stage >= loop.first && stage <= loop.last; });
  return found == loops.end() ? nullptr : &*found;
}

std::optional<ChainSchedule> chain_schedule(const ChainProblem& problem,
                                            const Arithmetic& arithmetic,
                                            const Candidate& candidate, const Device& device) {
  return Scheduler(problem, arithmetic, candidate, device).schedule();
}

std::int64_t chain_steps_of_slot(const ChainStep& step) {
  return device::kChainSlotBytes / (step.product.columns * kStepBytes);
}

void for_each_use(const ChainProblem& problem, const ChainSchedule& schedule,
                  const std::function<void(std::size_t, std::int64_t, std::int64_t)>& fn) {
  const auto use = [&](std::size_t i, std::int64_t pass) {
    const ChainStep& step = schedule.steps[i];
    if (problem.stages[i].kind == StageKind::kDense) {
      for (std::int64_t column = 0; column < step.column_tiles; ++column) {
        for (std::int64_t row = 0; row < step.row_tiles; ++row) fn(i, pass, column);
      }
    } else if (problem.stages[i].kind == StageKind::kDepthwise) {
      const std::int64_t slabs = ceil_div(schedule.parts[i + 1].held, step.slab);
      for (std::int64_t slab = 0; slab < slabs; ++slab) fn(i, pass, slab);
    }
  };
  for (std::size_t i = 0; i < problem.stages.size(); ++i) {
    const ChainLoop* loop = schedule.loop_of(i);
    if (loop == nullptr) {
      use(i, 0);
      continue;
    }
    for (std::int64_t pass = 0; pass < schedule.steps[i].passes; ++pass) {
      for (std::size_t k = loop->first; k <= loop->last; ++k) use(k, pass);
    }
    i = loop->last;
  }
}

}  // namespace braze::cuda
