// Arena offsets: values whose lives do not overlap share bytes.
//
// A block is a storage root with all its views, or several roots that kernels write in place over
// one another. It lives from the first kernel that writes any of it to the last that reads any of
// it; where kernels run at once, two blocks may share bytes if every kernel that uses the one has
// ended before any begins that uses the other. Blocks are placed one by one in the tightest gap
// free during their life. Of several orders of placing the one with the smallest arena wins, and a
// bounded search improves on it where it is not near largest_live_bytes, the bound that no placing
// can beat.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

#include "base/error.hpp"
#include "plan/order.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

constexpr std::int64_t kAlignment = 64;

struct Block {
  std::int64_t bytes = 0;
  std::size_t first = std::numeric_limits<std::size_t>::max();  // kernel that first writes it
  std::size_t last = 0;                                         // kernel that last reads it
  std::int64_t offset = 0;
  std::vector<std::int32_t> users = {};  // kernels
};

/// Where the blocks lie when they are placed in this order.
struct Packing {
  std::vector<std::size_t> order;
  std::vector<std::int64_t> offsets;  // by block
  std::int64_t bytes = 0;             // of the arena
};

class MemoryPlanner {
 public:
  MemoryPlanner(Plan& plan, const Registry& registry)
      : plan_(plan), registry_(registry), order_(plan) {}

  void assign() {
    find_roots();
    fix_outside_memory();
    find_lives();
    write_in_place();
    find_conflicts();
    place_blocks();
    finish();
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  Placement& placement(ValueId id) { return plan_.placements[index(id)]; }

  void find_roots() {
    root_.resize(plan_.placements.size());
    shift_.assign(plan_.placements.size(), 0);
    class_size_.assign(plan_.placements.size(), 0);
    for (ValueId id = 0; id < plan_.graph.value_count(); ++id) {
      ValueId root = id;
      while (placement(root).view_of != kNoValue) {
        shift_[index(id)] += placement(root).offset;
        root = placement(root).view_of;
      }
      root_[index(id)] = root;
      ++class_size_[index(root)];
    }
  }

  void fix_outside_memory() {
    for (std::size_t i = 0; i < plan_.graph.outputs.size(); ++i)
      set_outside(plan_.graph.outputs[i].value, Memory::kOutput, i);
    for (std::size_t i = 0; i < plan_.graph.inputs.size(); ++i)
      set_outside(plan_.graph.inputs[i], Memory::kInput, i);
  }

  void set_outside(ValueId id, Memory memory, std::size_t i) {
    Placement& root = placement(root_[index(id)]);
    root.memory = memory;
    root.index = static_cast<std::int32_t>(i);
  }

  void find_lives() {
    block_of_.assign(plan_.placements.size(), -1);
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
      for (const ValueId id : plan_.kernels[k].group.outputs) live(id, k);
      for (const ValueId id : plan_.kernels[k].group.inputs) live(id, k);
    }
  }

  void live(ValueId id, std::size_t k) {
    const ValueId root = root_[index(id)];
    if (placement(root).memory != Memory::kNone) return;
    int& number = block_of_[index(root)];
    if (number < 0) {
      number = static_cast<int>(blocks_.size());
      blocks_.push_back(
          {.bytes = (placement(root).bytes + kAlignment - 1) / kAlignment * kAlignment});
    }
    Block& block = blocks_[static_cast<std::size_t>(number)];
    block.first = std::min(block.first, k);
    block.last = std::max(block.last, k);
    block.users.push_back(static_cast<std::int32_t>(k));
  }

  /// A pointwise result over its first input: both whole storages of one shape and layout, the
  /// input dead afterwards and read once.
  void write_in_place() {
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
      const Group& group = plan_.kernels[k].group;
      if (group.members.empty() || group.inputs.empty() || group.outputs.size() != 1) continue;
      if (!family_of(registry_, plan_.kernels[k].family).in_place) continue;
      const Node& anchor = plan_.graph.node(group.members[0].anchor);
      const ValueId in = group.inputs[0];
      const ValueId out = group.outputs[0];
      if (std::count(anchor.inputs.begin(), anchor.inputs.end(), in) != 1 || anchor.inputs[0] != in)
        continue;
      const auto reads_again = [in](const Group::Member& member) {
        return std::ranges::any_of(member.epilogue.steps,
                                   [in](const EpilogueStep& step) { return step.operand == in; });
      };
      if (std::ranges::any_of(group.members, reads_again)) continue;
      const int from = block_of_[index(in)];
      const int to = block_of_[index(out)];
      if (from < 0 || to < 0 || class_size_[index(in)] != 1 || class_size_[index(out)] != 1)
        continue;
      const Placement& a = placement(in);
      const Placement& b = placement(out);
      if (a.layout != b.layout || a.pitch != b.pitch || a.bytes != b.bytes) continue;
      if (plan_.graph.value(in).dtype != plan_.graph.value(out).dtype ||
          plan_.graph.value(in).shape != plan_.graph.value(out).shape)
        continue;
      Block& source = blocks_[static_cast<std::size_t>(from)];
      Block& target = blocks_[static_cast<std::size_t>(to)];
      if (source.last != k || target.first != k) continue;
      const auto ended = [&](std::int32_t user) {
        return user == static_cast<std::int32_t>(k) ||
               order_.before(user, static_cast<std::int32_t>(k));
      };
      if (!std::all_of(source.users.begin(), source.users.end(), ended)) continue;
      source.last = target.last;
      source.users.insert(source.users.end(), target.users.begin(), target.users.end());
      target.bytes = 0;
      block_of_[index(out)] = from;
    }
  }

  /// Every kernel that uses block a has ended when one that uses b begins.
  [[nodiscard]] bool precedes(const Block& a, const Block& b) const {
    if (a.last >= b.first) return false;
    return std::all_of(a.users.begin(), a.users.end(), [&](std::int32_t user) {
      return std::all_of(b.users.begin(), b.users.end(),
                         [&](std::int32_t later) { return order_.before(user, later); });
    });
  }

  void find_conflicts() {
    conflicts_.assign(blocks_.size(), std::vector<bool>(blocks_.size(), false));
    for (std::size_t a = 0; a < blocks_.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        conflicts_[a][b] = conflicts_[b][a] =
            !precedes(blocks_[a], blocks_[b]) && !precedes(blocks_[b], blocks_[a]);
      }
    }
  }

  /// The arena that `order` takes: each block at the lowest offset where it just fits during its
  /// life.
  std::int64_t place_in_order(const std::vector<std::size_t>& order,
                              std::vector<std::int64_t>& offsets) const {
    std::vector<std::size_t> placed;
    std::vector<std::pair<std::int64_t, std::int64_t>> busy;
    std::int64_t total = 0;
    for (const std::size_t b : order) {
      busy.clear();
      for (const std::size_t other : placed) {
        if (conflicts_[b][other])
          busy.emplace_back(offsets[other], offsets[other] + blocks_[other].bytes);
      }
      std::sort(busy.begin(), busy.end());
      std::int64_t best = -1;
      std::int64_t best_gap = std::numeric_limits<std::int64_t>::max();
      std::int64_t end = 0;
      for (const auto& [begin, finish] : busy) {
        if (begin - end >= blocks_[b].bytes && begin - end < best_gap) {
          best = end;
          best_gap = begin - end;
        }
        end = std::max(end, finish);
      }
      offsets[b] = best >= 0 ? best : end;
      total = std::max(total, offsets[b] + blocks_[b].bytes);
      placed.push_back(b);
    }
    return total;
  }

  /// Bytes alive at each kernel, were they to run one by one.
  std::vector<std::int64_t> live_bytes() const {
    std::vector<std::int64_t> live(plan_.kernels.size() + 1, 0);
    for (const Block& block : blocks_) {
      for (std::size_t k = block.first; block.bytes > 0 && k <= block.last; ++k)
        live[k] += block.bytes;
    }
    return live;
  }

  /// Bytes of blocks no two of which may share any: of sets grown from each of the largest blocks,
  /// largest first, the most.
  [[nodiscard]] std::int64_t apart_bytes() const {
    constexpr std::size_t kSeeds = 64;
    std::vector<std::size_t> by_size(blocks_.size());
    std::iota(by_size.begin(), by_size.end(), std::size_t{0});
    std::sort(by_size.begin(), by_size.end(), [this](std::size_t a, std::size_t b) {
      return std::tuple(-blocks_[a].bytes, a) < std::tuple(-blocks_[b].bytes, b);
    });
    std::int64_t most = 0;
    for (std::size_t seed = 0; seed < std::min(kSeeds, by_size.size()); ++seed) {
      std::vector<std::size_t> set = {by_size[seed]};
      std::int64_t bytes = blocks_[by_size[seed]].bytes;
      for (const std::size_t b : by_size) {
        const auto apart = [&](std::size_t other) { return conflicts_[b][other]; };
        if (!std::all_of(set.begin(), set.end(), apart)) continue;
        set.push_back(b);
        bytes += blocks_[b].bytes;
      }
      most = std::max(most, bytes);
    }
    return most;
  }

  void place_blocks() {
    const std::vector<std::int64_t> live = live_bytes();
    plan_.largest_live_bytes = std::max(*std::max_element(live.begin(), live.end()), apart_bytes());
    const auto life = [](const Block& block) {
      return static_cast<std::int64_t>(block.last - block.first + 1);
    };
    const auto pressure = [&](const Block& block) {
      return *std::max_element(live.begin() + static_cast<std::ptrdiff_t>(block.first),
                               live.begin() + static_cast<std::ptrdiff_t>(block.last) + 1);
    };
    const std::vector<std::function<std::int64_t(const Block&)>> keys = {
        [](const Block& block) { return -block.bytes; },
        [&](const Block& block) { return -block.bytes * life(block); },
        [](const Block& block) { return static_cast<std::int64_t>(block.first); },
        [&](const Block& block) { return -life(block); },
        [](const Block& block) { return -static_cast<std::int64_t>(block.last); },
        [&](const Block& block) { return -pressure(block); },
    };
    Packing best;
    best.bytes = std::numeric_limits<std::int64_t>::max();
    for (const auto& key : keys) {
      Packing packing;
      packing.order.resize(blocks_.size());
      packing.offsets.resize(blocks_.size());
      std::iota(packing.order.begin(), packing.order.end(), std::size_t{0});
      std::vector<std::int64_t> ranks(blocks_.size());
      for (std::size_t b = 0; b < blocks_.size(); ++b) ranks[b] = key(blocks_[b]);
      std::sort(packing.order.begin(), packing.order.end(), [&](std::size_t a, std::size_t b) {
        return std::tuple(ranks[a], -blocks_[a].bytes, a) <
               std::tuple(ranks[b], -blocks_[b].bytes, b);
      });
      packing.bytes = place_in_order(packing.order, packing.offsets);
      if (packing.bytes < best.bytes) best = std::move(packing);
    }
    improve(best);
    plan_.arena_bytes = best.bytes;
    for (std::size_t b = 0; b < blocks_.size(); ++b) blocks_[b].offset = best.offsets[b];
  }

  /// Seeks an order nearer to the bound. Whatever reaches the top of the arena came too late: one
  /// such block moves to an earlier turn, or any two change turns. Equal arenas are taken too, for
  /// the walk not to stick. Deterministic, and of bounded work (placing n blocks costs about n^2).
  void improve(Packing& best) const {
    const auto n = static_cast<std::int64_t>(blocks_.size());
    const std::int64_t goal = plan_.largest_live_bytes + plan_.largest_live_bytes / 50;
    // Where kernels run at once the bound is seldom reached: most tries would be in vain.
    const std::int64_t work = order_.one_stream() ? 40'000'000 : 4'000'000;
    std::int64_t tries = std::min<std::int64_t>(20'000, work / std::max<std::int64_t>(1, n * n));
    std::minstd_rand random(1);
    Packing now = best;
    for (; best.bytes > goal && tries > 0; --tries) {
      Packing next = now;
      std::vector<std::size_t>& turns = next.order;
      if (tries % 2 == 0) {
        std::swap(turns[random() % turns.size()], turns[random() % turns.size()]);
      } else {
        const auto at_top = [&](std::size_t b) {
          return now.offsets[b] + blocks_[b].bytes == now.bytes;
        };
        const auto late = std::find_if(turns.begin(), turns.end(), at_top);
        if (late == turns.begin()) continue;
        const auto earlier =
            static_cast<std::ptrdiff_t>(random() % static_cast<std::size_t>(late - turns.begin()));
        std::rotate(turns.begin() + earlier, late, late + 1);
      }
      next.bytes = place_in_order(next.order, next.offsets);
      if (next.bytes > now.bytes) continue;
      now = std::move(next);
      if (now.bytes < best.bytes) best = now;
    }
  }

  void finish() {
    for (ValueId id = 0; id < plan_.graph.value_count(); ++id) {
      const ValueId root = root_[index(id)];
      Placement& mine = placement(id);
      const int block = block_of_[index(root)];
      if (id == root) {
        if (block >= 0) mine.memory = Memory::kArena;
        mine.offset = block >= 0 ? blocks_[static_cast<std::size_t>(block)].offset : 0;
      }
    }
    for (ValueId id = 0; id < plan_.graph.value_count(); ++id) {
      const ValueId root = root_[index(id)];
      if (id == root) continue;
      Placement& mine = placement(id);
      mine.memory = placement(root).memory;
      mine.index = placement(root).index;
      mine.offset = placement(root).offset + shift_[index(id)];
    }
  }

  Plan& plan_;
  const Registry& registry_;
  Order order_;
  std::vector<ValueId> root_;
  std::vector<std::int64_t> shift_;  // bytes from the root's start
  std::vector<int> class_size_;      // values in a root's storage
  std::vector<int> block_of_;        // by root; -1: not in the arena
  std::vector<Block> blocks_;
  std::vector<std::vector<bool>> conflicts_;  // of two blocks, which may not share bytes
};

}  // namespace

void assign_memory(Plan& plan, const Registry& registry) { MemoryPlanner(plan, registry).assign(); }

}  // namespace braze
