// What a group takes that runs row by row.
#include <algorithm>
#include <array>
#include <cmath>

#include "graph/window.hpp"
#include "kernels/cpu/chain_rows.hpp"
#include "plan/parts.hpp"

namespace braze::cpu {
namespace {

/// The families whose kernels run row by row, in order of preference.
const std::array<Row, 3>& part_rows() {
  static const std::array<Row, 3> rows = {conv_depthwise(), conv_direct(), pool()};
  return rows;
}

/// Cycles of a call of a member beside its arithmetic, but for the one that its own kernel has too:
/// its taps, the fill of its ring, weights and code that other members have driven out of the L1.
/// Measured on Zen 4, blocks of MobileNetV2.
constexpr double kCall = 1000;
/// Likewise of a member that copies rows.
constexpr double kCopyCall = 300;
/// What copies take beyond their traffic, but for pairs out of two images: some bytes of each pixel
/// at a time.
constexpr double kCopied = 2;

/// An elementwise member copies its first operand and then passes over the copy (row_pointwise()).
constexpr double kPasses = 2;

/// Part of the L2 that the images of a step may take, and what a step takes longer that takes more.
constexpr double kShare = 0.75;
constexpr double kSpilled = 1.3;
/// With one worker, time of members beside each other over that of their own kernels.
constexpr double kBeside = 1.03;
/// An image between two kernels that is larger than the L2 takes them longer, although arithmetic
/// should hide it: by this part of its traffic, which a group spares. Fitted with kBeside on Zen 4,
/// blocks of MobileNetV2 from 14x14 to 112x112. Of several workers, cache_bandwidth has it.
constexpr double kNotHidden = 0.3;
/// Workers do not keep the same pace: part of the last task's time that others wait for it.
constexpr double kUneven = 0.04;

}  // namespace

const Row* row_of(const Graph& graph, const Node& node, const Device& device) {
  for (const Row& row : part_rows()) {
    if (row.family.supports(graph, node, device).ok) return &row;
  }
  return nullptr;
}

namespace {

double pixels_of(const GroupTiles::Image& image) {
  return static_cast<double>(image.extent[0]) * static_cast<double>(image.extent[1]);
}

/// Bytes of the images that a step of so many rows of the result touches, each once; `whole`: by
/// image, the one it is a part of, or itself.
double step_bytes(const GroupTiles& tiles, const std::vector<std::size_t>& whole,
                  std::int64_t rows) {
  const auto extents = tiles.extents(rows, 1);
  double bytes = 0;
  for (std::size_t i = 0; i < tiles.images().size(); ++i) {
    if (whole[i] != i) continue;
    const GroupTiles::Image& image = tiles.images()[i];
    bytes += static_cast<double>(std::min(extents[i][0], image.extent[0]) * image.extent[1] *
                                 image.pixel_bytes);
  }
  return bytes;
}

/// What a group takes, for any tiling.
class Estimate {
 public:
  Estimate(const Graph& graph, const Group& group, const Device& device)
      : device_(device),
        tiles_(*GroupTiles::of(graph, group, nullptr)),
        outside_(bytes_moved(graph, group) < device.cache_bytes ? device.cache_bandwidth
                                                                : device.dram_bandwidth) {
    for (std::size_t m = 0; m < group.members.size(); ++m) {
      const Node& node = graph.node(group.members[m].anchor);
      const Group part = part_of(graph, group, m);
      const Row* row = row_of(graph, node, device);
      copies_.push_back(is_row_copy(graph, group.members[m]));
      passes_.push_back(row == nullptr ? kPasses : 1);
      zips_.push_back(zipped_concat(graph, group, node) != nullptr &&
                      node.as<ChannelShuffle>()->groups == 2);
      work_.push_back(row != nullptr ? row->family.work(graph, part, Candidate{}, device)
                      : copies_[m]   ? streaming_work(graph, part, 0)
                                     : pointwise().family.work(graph, part, Candidate{}, device));
      for (const ValueId id : node.inputs) {
        if (id != kNoValue && graph.value(id).is_constant()) weights_ += bytes_of(graph, id);
      }
    }
    const std::map<ValueId, PartOf> parts = parts_of(graph, group);
    for (std::size_t i = 0; i < tiles_.images().size(); ++i) {
      const auto part = parts.find(tiles_.images()[i].id);
      whole_.push_back(part == parts.end() ? i : index_of(part->second.whole));
    }
    for (std::size_t m = 0; m < group.members.size(); ++m) {
      // A zipped Concat is where its inputs are.
      const GroupTiles::Member& member = tiles_.members()[m];
      if (is_zipped(graph, group, graph.node(group.members[m].anchor)))
        whole_[member.image] = member.reads[0].image;
    }
  }

  /// Of the whole group, on all workers.
  [[nodiscard]] Work work(const Tiling& tiling) const {
    const std::vector<double> computed = tiles_.recomputed(tiling.band, tiling.columns);
    const double cores = std::max(1, device_.units);
    const double clock = device_.onchip_bandwidth / (32 * cores);  // as in cpu_device()
    const auto tasks =
        static_cast<double>(tiles_.batch() * ceil_div(tiles_.result().extent[0], tiling.band));
    const double steps = tasks * static_cast<double>(ceil_div(tiling.band, tiling.rows));
    const double bytes = step_bytes(tiles_, whole_, tiling.rows);
    const bool spilled = bytes > kShare * device_.onchip_bytes;
    const double inside = spilled ? device_.cache_bandwidth : device_.onchip_bandwidth;
    Work work;
    double seconds = 0;
    for (std::size_t m = 0; m < work_.size(); ++m) {
      const double flops = work_[m].flops * computed[m];
      const double arithmetic = flops / (work_[m].efficiency * device_.flops_fp32);
      seconds += std::max(arithmetic, traffic(m, inside) * computed[m]) + copy(m) +
                 (copies_[m] ? kCopyCall : kCall) * std::max(0.0, steps / cores - 1) / clock;
      if (cores == 1 && !spilled) seconds -= kNotHidden * std::min(arithmetic, spared(m));
      work.flops += flops;
    }
    if (spilled) seconds *= kSpilled;
    if (bytes + weights_ > device_.onchip_bytes)
      seconds += weights_ * steps / device_.cache_bandwidth;
    seconds *= std::ceil(tasks / cores) * cores / tasks;  // not all workers have as many tasks
    seconds *= cores > 1 ? 1 + kUneven * cores / tasks : kBeside;
    work.efficiency = work.flops / (seconds * device_.flops_fp32);
    return work;
  }

  /// About so many rows at once, in bands of which each worker has one, two or four: those that
  /// take least.
  [[nodiscard]] Tiling tiling(std::int64_t wanted) const {
    const std::int64_t height = tiles_.result().extent[0];
    const std::int64_t units = std::max(1, device_.units);
    Tiling best;
    double least = 0;
    for (const std::int64_t share : {1, 2, 4}) {
      const std::int64_t bands = units == 1 ? 1 : ceil_div(units * share, tiles_.batch());
      Tiling tiling;
      tiling.columns = tiles_.result().extent[1];
      tiling.band = ceil_div(height, std::min(bands, height));
      tiling.rows = ceil_div(tiling.band, ceil_div(tiling.band, wanted));  // equal steps
      const Work work = this->work(tiling);
      const double seconds = work.flops / work.efficiency;
      if (best.rows == 0 || seconds < least) best = tiling, least = seconds;
      if (units == 1) break;
    }
    return best;
  }

 private:
  /// Seconds that what a member reads and writes takes; `inside`: bytes/s of intermediates.
  [[nodiscard]] double traffic(std::size_t m, double inside) const {
    double seconds = 0;
    const auto rate = [&](std::size_t i) {
      while (whole_[i] != i) i = whole_[i];
      const bool kept = tiles_.images()[i].made && i != tiles_.members().back().image;
      return kept ? inside : outside_;
    };
    const auto add = [&](std::size_t i) { seconds += bytes(i) / rate(i); };
    const GroupTiles::Member& member = tiles_.members()[m];
    if (!copies_[m]) {
      for (const GroupTiles::Read& read : member.reads) add(read.image);
      add(member.image);
      return seconds * passes_[m];
    }
    // What is copied is read and written; of a Concat, what does not lie there already.
    const std::size_t y = member.image;
    if (whole_[y] != y && whole_[y] == member.reads[0].image) return 0;
    double copied = 0;  // channels
    for (const GroupTiles::Read& read : member.reads) {
      if (whole_[read.image] == y) continue;
      add(read.image);
      copied += static_cast<double>(tiles_.images()[read.image].channels);
    }
    const double part = std::min(1.0, copied / static_cast<double>(tiles_.images()[y].channels));
    return (seconds + part * bytes(y) / rate(y)) * (zips_[m] ? 1 : kCopied);
  }

  /// Seconds that intermediates take which the member's own kernel has to have from behind the L2.
  [[nodiscard]] double spared(std::size_t m) const {
    double sum = 0;
    const auto add = [&](std::size_t i) {
      const bool kept = tiles_.images()[i].made && i != tiles_.members().back().image;
      if (kept && bytes(i) > device_.onchip_bytes) sum += bytes(i) / device_.cache_bandwidth;
    };
    for (const GroupTiles::Read& read : tiles_.members()[m].reads) add(read.image);
    add(tiles_.members()[m].image);
    return sum;
  }

  /// Of a stored intermediate: seconds of its copy, after the arithmetic.
  [[nodiscard]] double copy(std::size_t m) const {
    const std::size_t i = tiles_.members()[m].image;
    const bool copied = tiles_.images()[i].stored && m + 1 < work_.size();
    return copied ? bytes(i) / outside_ : 0;
  }

  [[nodiscard]] std::size_t index_of(ValueId id) const {
    return static_cast<std::size_t>(std::ranges::find(tiles_.images(), id, &GroupTiles::Image::id) -
                                    tiles_.images().begin());
  }

  [[nodiscard]] double bytes(std::size_t i) const {
    const GroupTiles::Image& image = tiles_.images()[i];
    return pixels_of(image) * static_cast<double>(image.pixel_bytes * tiles_.batch());
  }

  const Device& device_;
  GroupTiles tiles_;
  double outside_;  // bytes/s of what is in memory
  double weights_ = 0;
  std::vector<Work> work_;          // by member, as if it were alone
  std::vector<double> passes_;      // by member: over what it reads and writes
  std::vector<bool> copies_;        // by member: it only moves elements
  std::vector<bool> zips_;          // by member: it makes pairs of channels of two images
  std::vector<std::size_t> whole_;  // by image: the one where it lies, or itself
};

}  // namespace

Tiling chain_rows_tiling(const Graph& graph, const Group& group, const Candidate& candidate,
                         const Device& device) {
  return Estimate(graph, group, device).tiling(std::max<std::int64_t>(candidate.get("rows"), 1));
}

Work chain_rows_work(const Graph& graph, const Group& group, const Candidate& candidate,
                     const Device& device) {
  const Estimate estimate(graph, group, device);
  return estimate.work(estimate.tiling(std::max<std::int64_t>(candidate.get("rows"), 1)));
}

}  // namespace braze::cpu
