// Weights of a chain in the order in which a tile uses them; see device/chain_weights.cuh.
#include <map>

#include "graph/elements.hpp"
#include "graph/window.hpp"
#include "kernels/cuda/chain_schedule.hpp"
#include "kernels/cuda/pack.hpp"

namespace braze::cuda {
namespace {

class Packer {
 public:
  Packer(const ChainProblem& problem, const ChainSchedule& schedule, const Arithmetic& arithmetic,
         ChainWeights& to)
      : problem_(problem), schedule_(schedule), arithmetic_(arithmetic), to_(to) {}

  void use(const std::vector<float>& weights, std::size_t i, std::int64_t pass, std::int64_t tile) {
    auto [slots, added] = packed_.try_emplace({static_cast<std::int64_t>(i), pass, tile});
    if (added) {
      if (problem_.stages[i].kind == StageKind::kDense) {
        pack_dense(slots->second, weights, i, pass, tile);
      } else {
        pack_slab(slots->second, weights, i, pass, tile);
      }
    }
    to_.order.insert(to_.order.end(), slots->second.begin(), slots->second.end());
  }

 private:
  using Slots = std::vector<device::ChainSlot>;

  std::int64_t size() const { return arithmetic_.element_bytes(); }
  std::byte* add(Slots& slots, std::int64_t bytes) {
    const std::size_t at = to_.bytes.size();
    slots.push_back({static_cast<int>(at), static_cast<int>(bytes)});
    to_.bytes.resize(at + static_cast<std::size_t>(bytes));
    return to_.bytes.data() + at;
  }
  void write(std::byte* to, float x) const {
    write_element(to, x, arithmetic_.dtype, arithmetic_.tf32);
  }

  /// The output channel of a column, counted from the tile's first. Of mma.sync's columns a lane
  /// has 2 t and 2 t + 1 of every 8; those of 32, or of 16, are made adjacent channels.
  std::int64_t channel_of(const ChainProduct& product, std::int64_t column) const {
    if (arithmetic_.multiplier != Multiplier::kMma) return column;
    const std::int64_t together = product.columns / product.across % 32 == 0 ? 32 : 16;
    const std::int64_t of = column % together, t = of % 8 / 2;
    return column - of + t * (together / 4) + of / 8 * 2 + of % 2;
  }

  /// All the depth of one tile of columns: steps of 32 bytes for each column.
  void pack_dense(Slots& slots, const std::vector<float>& weights, std::size_t i, std::int64_t pass,
                  std::int64_t tile) {
    const ChainStage& stage = problem_.stages[i];
    const ChainStep& step = schedule_.steps[i];
    const ChainLoop* loop = schedule_.loop_of(i);
    const bool sums = loop != nullptr && loop->last == i;
    const std::int64_t first_output =
        (loop != nullptr && !sums ? pass : tile) * step.product.columns;
    const std::int64_t first_channel = sums ? pass * schedule_.pass : 0;
    const std::int64_t elements = 32 / size();
    const bool swizzled = arithmetic_.multiplier != Multiplier::kWmma;
    const std::int64_t in_slot = chain_steps_of_slot(step);
    for (std::int64_t done = 0; done < step.depth; done += in_slot) {
      const std::int64_t count = std::min(in_slot, step.depth - done);
      std::byte* const to = add(slots, count * step.product.columns * 32);
      for (std::int64_t at = 0; at < count * step.product.columns * elements; ++at) {
        const std::int64_t e = at % elements, column = at / elements % step.product.columns;
        const std::int64_t depth = done + at / elements / step.product.columns;
        const std::int64_t tap = depth / step.of_tap;
        const std::int64_t c = depth % step.of_tap * elements + e, channel = first_channel + c;
        const std::int64_t output = first_output + channel_of(step.product, column);
        if (channel >= stage.channels || output >= stage.outputs) continue;
        const std::int64_t chunk = (e * size() / 16) ^ (swizzled ? column >> 2 & 1 : 0);
        const std::int64_t place = at / elements * 32 + chunk * 16 + e * size() % 16;
        write(to + place, weights[static_cast<std::size_t>(output * stage.output_stride +
                                                           channel * stage.channel_stride + tap)]);
      }
    }
  }

  /// [tap][channel of the slab]
  void pack_slab(Slots& slots, const std::vector<float>& weights, std::size_t i, std::int64_t pass,
                 std::int64_t tile) {
    const ChainStage& stage = problem_.stages[i];
    const std::int64_t slab = schedule_.steps[i].slab, taps = stage.taps();
    const bool in_parts = schedule_.loop_of(i) != nullptr;
    const std::int64_t first = (in_parts ? pass * schedule_.pass : 0) + tile * slab;
    std::byte* const to = add(slots, taps * slab * size());
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t c = 0; c < slab && first + c < stage.outputs; ++c)
        write(to + (tap * slab + c) * size(),
              weights[static_cast<std::size_t>((first + c) * stage.output_stride + tap)]);
    }
  }

  const ChainProblem& problem_;
  const ChainSchedule& schedule_;
  const Arithmetic& arithmetic_;
  ChainWeights& to_;
  std::map<std::array<std::int64_t, 3>, Slots> packed_;
};

}  // namespace

ChainWeights pack_chain(const Graph& graph, const ChainProblem& problem,
                        const ChainSchedule& schedule, const Arithmetic& arithmetic) {
  std::vector<std::vector<float>> weights;
  for (const ChainStage& stage : problem.stages) {
    weights.emplace_back();
    if (stage.is_conv()) weights.back() = load<float>(*graph.value(stage.weights).constant);
  }
  ChainWeights packed;
  Packer packer(problem, schedule, arithmetic, packed);
  for_each_use(problem, schedule, [&](std::size_t i, std::int64_t pass, std::int64_t tile) {
    packer.use(weights[i], i, pass, tile);
  });
  return packed;
}

}  // namespace braze::cuda
