// Groups of several members: kernels that follow one another become one.
//
// A chain is a run of kernels in which each is the first to read what the one before makes. Every
// stretch of it is offered to the families that join, and of all ways to cut the chain into kernels
// and stretches the one that takes least by estimate is made. Results that others read too, or that
// are outputs of the network, are stored by families that can:
//
//   best(j) = min over i <= j of best(i - 1) + us(i .. j)
//
// Joined kernels run where the last of them would have: what they read is there by then, and those
// who read what the others make come later.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <ranges>
#include <set>

#include "base/error.hpp"
#include "plan/make_plan.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
/// Kernels of the longest stretch that is offered: bounds the work of a long chain.
constexpr std::size_t kLongest = 16;

/// Of ways that take about as long the one with fewer kernels is made: it needs less memory.
constexpr double kTie = 1.002;

/// Kernels [first, last] of a chain.
struct Range {
  std::size_t first = 0, last = 0;
  [[nodiscard]] bool holds(const Range& other) const {
    return first <= other.first && other.last <= last;
  }
};
/// As one kernel.
struct Stretch : Range {
  KernelPlan kernel;
  double us = 0;
};
/// It has a family's shape and was not made.
struct Missed : Range {
  std::string rule, reason;
};

class Joiner {
 public:
  Joiner(Plan& plan, const Registry& registry) : plan_(plan), graph_(plan.graph) {
    for (const KernelFamily& row : registry) {
      if (row.joins != nullptr) families_.push_back(&row);
    }
    registry_ = &registry;
  }

  void join() {
    if (families_.empty()) return;
    find_links();
    joined_.assign(plan_.kernels.size(), false);
    std::vector<bool> seen(plan_.kernels.size(), false);
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
      std::vector<std::size_t> chain;
      for (std::size_t at = k; at != kNone && !seen[at]; at = next_[at]) {
        seen[at] = true;
        chain.push_back(at);
      }
      if (chain.size() > 1) cut(chain);
    }
    for (std::size_t k = joined_.size(); k-- > 0;) {
      if (joined_[k]) plan_.kernels.erase(plan_.kernels.begin() + static_cast<std::ptrdiff_t>(k));
    }
    forget_what_was_made();
  }

 private:
  const KernelPlan& kernel(std::size_t k) const { return plan_.kernels[k]; }

  /// next_[k]: the first reader of k's results. Of several kernels that have one next, its chain is
  /// that of the last one whose results nobody outside needs; if there is none, of the last one.
  void find_links() {
    const std::size_t count = plan_.kernels.size();
    std::map<ValueId, std::set<std::size_t>> readers;
    for (std::size_t k = 0; k < count; ++k) {
      for (const ValueId id : kernel(k).group.inputs) readers[id].insert(k);
    }
    next_.assign(count, kNone);
    readers_.assign(count, {});
    for (std::size_t k = 0; k < count; ++k) {
      for (const ValueId id : kernel(k).group.outputs)
        readers_[k].insert(readers[id].begin(), readers[id].end());
    }
    std::vector<bool> continued(count, false);  // has one before it
    for (const bool needed_outside : {false, true}) {
      for (std::size_t k = count; k-- > 0;) {
        if (next_[k] != kNone || readers_[k].empty()) continue;
        const std::size_t reader = *readers_[k].begin();
        if (continued[reader] || converts(reader, k)) continue;
        if (!needed_outside && (is_output(k) || !has_readers_in_chain(k))) continue;
        next_[k] = reader;
        continued[reader] = true;
      }
    }
  }

  bool is_output(std::size_t k) const {
    return std::ranges::any_of(kernel(k).group.outputs,
                               [&](ValueId id) { return graph_.is_output(id); });
  }

  /// Are all readers of k's results in the chain that begins with the first one?
  bool has_readers_in_chain(std::size_t k) const {
    std::size_t found = 0;
    for (std::size_t at = *readers_[k].begin(); at != kNone; at = next_[at])
      found += readers_[k].count(at);
    return found == readers_[k].size();
  }

  /// Does `reader` convert a result of `k` while it loads it?
  bool converts(std::size_t reader, std::size_t k) const {
    const std::vector<ValueId>& outputs = kernel(k).group.outputs;
    return std::ranges::any_of(kernel(reader).group.casts, [&](NodeId cast) {
      return std::ranges::find(outputs, graph_.node(cast).inputs[0]) != outputs.end();
    });
  }

  /// Those who read a result of the stretch but its last come after it, or are in it.
  bool is_closed(const std::vector<std::size_t>& chain, std::size_t first, std::size_t last) const {
    const auto inside = [&](std::size_t k) {
      return std::ranges::find(chain.begin() + static_cast<std::ptrdiff_t>(first),
                               chain.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                               k) != chain.begin() + static_cast<std::ptrdiff_t>(last) + 1;
    };
    for (std::size_t i = first; i < last; ++i) {
      for (const std::size_t reader : readers_[chain[i]]) {
        if (reader < chain[last] && !inside(reader)) return false;
      }
    }
    return true;
  }

  /// Is a result of chain[i] read behind chain[last], or an output of the network?
  bool is_needed(const std::vector<std::size_t>& chain, std::size_t i, std::size_t last) const {
    return is_output(chain[i]) || *readers_[chain[i]].rbegin() > chain[last];
  }

  KernelPlan joined(const std::vector<std::size_t>& chain, std::size_t first,
                    std::size_t last) const {
    KernelPlan result;
    result.kind = KernelKind::kGroup;
    Group& group = result.group;
    std::set<ValueId> made;
    for (std::size_t i = first; i <= last; ++i) {
      const Group& part = kernel(chain[i]).group;
      group.members.insert(group.members.end(), part.members.begin(), part.members.end());
      group.casts.insert(group.casts.end(), part.casts.begin(), part.casts.end());
      for (const ValueId id : part.inputs) {
        if (!made.contains(id) && std::ranges::find(group.inputs, id) == group.inputs.end())
          group.inputs.push_back(id);
      }
      made.insert(part.outputs.begin(), part.outputs.end());
    }
    group.outputs = kernel(chain[last]).group.outputs;
    for (std::size_t i = first; i < last; ++i) {
      const std::vector<ValueId>& outputs = kernel(chain[i]).group.outputs;
      if (is_needed(chain, i, last))
        group.outputs.insert(group.outputs.end(), outputs.begin(), outputs.end());
    }
    return result;
  }

  double us_of(const KernelPlan& one) const {
    if (one.family == "view") return 0;
    return ways_of(plan_, one, *registry_, {}).front().est_us;
  }

  void cut(const std::vector<std::size_t>& chain) {
    const std::size_t count = chain.size();
    std::vector<std::vector<Stretch>> ending(count);  // by last member
    std::vector<Missed> missed;
    for (std::size_t last = 0; last < count; ++last) {
      for (std::size_t first = last >= kLongest ? last - kLongest + 1 : 0; first < last; ++first) {
        if (is_closed(chain, first, last)) offer(chain, first, last, ending[last], missed);
      }
    }
    if (std::ranges::all_of(ending, [](const auto& list) { return list.empty(); }) &&
        missed.empty())
      return;

    std::vector<double> best = {0};  // us of members 0 .. i - 1
    std::vector<Stretch*> choice;    // what ends with member i; null: a kernel of its own
    for (std::size_t last = 0; last < count; ++last) {
      best.push_back(best[last] + us_of(kernel(chain[last])));
      choice.push_back(nullptr);
      for (Stretch& stretch : ending[last] | std::views::reverse) {  // the longest one last
        const double us = best[stretch.first] + stretch.us;
        if (us > best.back() * kTie) continue;
        best.back() = us;
        choice.back() = &stretch;
      }
    }
    std::vector<Stretch*> made;
    for (std::size_t last = count; last-- > 0;) {
      if (choice[last] == nullptr) continue;
      made.push_back(choice[last]);
      last = choice[last]->first;
    }
    for (const auto& list : ending) {
      for (const Stretch& stretch : list) {
        missed.push_back({stretch, "slower",
                          fmt::format("one kernel of {} would take {:.2f} us, those that are made "
                                      "take {:.2f} us",
                                      stretch.kernel.family, stretch.us,
                                      best[stretch.last + 1] - best[stretch.first])});
      }
    }
    record(chain, made, missed);
    for (Stretch* stretch : made) {
      for (std::size_t i = stretch->first; i < stretch->last; ++i) joined_[chain[i]] = true;
      plan_.kernels[chain[stretch->last]] = std::move(stretch->kernel);
    }
  }

  /// Are these kernels of one backend? What the user wants from another one stays there.
  bool is_of(const std::vector<std::size_t>& chain, std::size_t first, std::size_t last,
             std::string_view backend) const {
    for (std::size_t i = first; i <= last; ++i) {
      const KernelPlan& one = kernel(chain[i]);
      if (one.family != "view" && one.backend != backend) return false;
    }
    return true;
  }

  /// Asks every family that joins for the stretch.
  void offer(const std::vector<std::size_t>& chain, std::size_t first, std::size_t last,
             std::vector<Stretch>& stretches, std::vector<Missed>& missed) const {
    const KernelPlan whole = joined(chain, first, last);
    const bool stores = whole.group.outputs.size() > kernel(chain[last]).group.outputs.size();
    for (const KernelFamily* row : families_) {
      if (!is_of(chain, first, last, row->backend) || (stores && !row->stores)) continue;
      const Support support = row->joins(graph_, whole.group, plan_.device);
      if (!support.ok) {
        if (!support.rule.empty()) missed.push_back({{first, last}, support.rule, support.reason});
        continue;
      }
      Stretch& stretch = stretches.emplace_back(Stretch{{first, last}, whole, 0});
      stretch.kernel.family = row->name;
      stretch.kernel.backend = row->backend;
      stretch.us = us_of(stretch.kernel);
    }
  }

  /// Of what was missed only the longest stretches are told, and none inside of one that was made.
  void record(const std::vector<std::size_t>& chain, const std::vector<Stretch*>& made,
              const std::vector<Missed>& missed) {
    for (std::size_t i = 0; i < missed.size(); ++i) {
      const Missed& one = missed[i];
      bool hidden = std::ranges::any_of(made, [&](const Stretch* m) { return m->holds(one); });
      for (std::size_t j = 0; j < missed.size(); ++j)
        hidden |= j != i && missed[j].holds(one) && (j < i || !one.holds(missed[j]));
      if (hidden) continue;
      Refusal refusal{{}, one.rule, one.reason};
      for (std::size_t k = one.first; k <= one.last; ++k)
        refusal.nodes.push_back(graph_.node(kernel(chain[k]).group.members[0].anchor).id);
      plan_.not_fused.push_back(std::move(refusal));
    }
  }

  /// A join that form_groups() refused and that a group has made after all.
  void forget_what_was_made() {
    std::map<std::string, std::size_t> group_of;
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
      if (kernel(k).kind != KernelKind::kGroup) continue;
      for (const Group::Member& member : kernel(k).group.members) {
        group_of[graph_.node(member.anchor).id] = k;
        for (const EpilogueStep& step : member.epilogue.steps)
          group_of[graph_.node(step.node).id] = k;
      }
    }
    std::erase_if(plan_.not_fused, [&](const Refusal& refusal) {
      const auto first = group_of.find(refusal.nodes.front());
      return first != group_of.end() && std::ranges::all_of(refusal.nodes, [&](const auto& id) {
               const auto found = group_of.find(id);
               return found != group_of.end() && found->second == first->second;
             });
    });
  }

  Plan& plan_;
  const Graph& graph_;
  const Registry* registry_ = nullptr;
  std::vector<const KernelFamily*> families_;
  std::vector<std::size_t> next_;               // by kernel
  std::vector<std::set<std::size_t>> readers_;  // by kernel: of its results
  std::vector<bool> joined_;                    // by kernel: is part of the group of a later one
};

}  // namespace

void join_groups(Plan& plan, const Registry& registry) { Joiner(plan, registry).join(); }

}  // namespace braze
