// Groups of several members: kernels that follow one another become one.
//
// A chain is a run of kernels in which each is the first to read what the one before makes. Every
// stretch of it is offered to the families that join, and of all ways to cut the chain into kernels
// and stretches the one that takes least by estimate is made. Results that others read too, or that
// are outputs of the network, are stored by families that can:
//
//   best(j) = min over i <= j of best(i - 1) + us(i .. j)
//
// A chain that only another one reads, between its first and its last kernel, is a branch of it,
// and so is a single kernel before it. With its branches, in order of execution, a chain is cut
// likewise; a stretch then leaves out what does not lead to its last kernel. That is done where it
// takes less than to cut them one by one.
//
// Joined kernels run where the last of them would have: what they read is there by then, and those
// who read what the others make come later.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "plan/make_plan.hpp"
#include "plan/parts.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
/// Kernels of the longest stretch that is offered: bounds the work of a long chain.
constexpr std::size_t kLongest = 16;

/// Of ways that take about as long the one with fewer kernels is made: it needs less memory.
constexpr double kTie = 1.002;

/// Kernels [first, last] of a chain, but those that do not lead to the last.
struct Range {
  std::size_t first = 0, last = 0;
  std::vector<std::size_t> kernels;
  [[nodiscard]] bool holds(const Range& other) const {
    return first <= other.first && other.last <= last;
  }
};
/// As one kernel.
struct Stretch : Range {
  KernelPlan kernel;
  double us = 0;
  double left_out_us = 0;  // of the kernels that are not in it
};
/// It has a family's shape and was not made.
struct Missed : Range {
  std::string rule, reason;
};
using Chain = std::vector<std::size_t>;
/// The way to cut a chain.
struct Cut {
  double us = 0;
  std::vector<Stretch> made;
  std::vector<Missed> missed;
};

/// What a kernel that is not joined counts for: more than it takes if BRAZE_JOIN is "most".
double weight_of_parts() {
  const char* wish = std::getenv("BRAZE_JOIN");
  return wish != nullptr && std::string_view(wish) == "most" ? 1e3 : 1;
}

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
    find_readers();
    find_links();
    joined_.assign(plan_.kernels.size(), false);
    us_.assign(plan_.kernels.size(), kUnknown);
    std::vector<Cut> cuts = cut_all(find_chains());
    for (Cut& one : cuts) make(one);
    for (std::size_t k = joined_.size(); k-- > 0;) {
      if (joined_[k]) plan_.kernels.erase(plan_.kernels.begin() + static_cast<std::ptrdiff_t>(k));
    }
    forget_what_was_made();
  }

 private:
  static constexpr double kUnknown = -1;

  const KernelPlan& kernel(std::size_t k) const { return plan_.kernels[k]; }

  void find_readers() {
    const std::size_t count = plan_.kernels.size();
    for (std::size_t k = 0; k < count; ++k) {
      for (const ValueId id : kernel(k).group.inputs) readers_of_[id].insert(k);
    }
    readers_.assign(count, {});
    for (std::size_t k = 0; k < count; ++k) {
      for (const ValueId id : kernel(k).group.outputs) {
        producer_[id] = k;
        readers_[k].insert(readers_of_[id].begin(), readers_of_[id].end());
      }
    }
  }

  /// next_[k]: the first reader of k's results. Of several kernels that have one next, its chain is
  /// that of the last one whose results nobody outside needs; if there is none, of the last one.
  void find_links() {
    const std::size_t count = plan_.kernels.size();
    next_.assign(count, kNone);
    std::vector<bool> continued(count, false);  // has one before it
    for (const bool needed_outside : {false, true}) {
      for (std::size_t k = count; k-- > 0;) {
        if (next_[k] != kNone || readers_[k].empty()) continue;
        const std::size_t reader = first_reader(k);
        if (continued[reader] || converts(reader, k)) continue;
        if (!needed_outside && (is_output(k) || !has_readers_in_chain(k))) continue;
        next_[k] = reader;
        continued[reader] = true;
      }
    }
  }

  /// The first that reads k's results, but for one that only the chain of another one reads.
  std::size_t first_reader(std::size_t k) const {
    for (const std::size_t reader : readers_[k]) {
      const bool branch = std::ranges::any_of(readers_[k], [&](std::size_t other) {
        return other > reader && is_branch_of(reader, other) &&
               count_in_chain({other}, reader) == 0;
      });
      if (!branch) return reader;
    }
    return *readers_[k].begin();
  }

  /// Is k one kernel whose results only the chain that begins with `first` reads?
  bool is_branch_of(std::size_t k, std::size_t first) const {
    return !is_output(k) && !readers_[k].empty() &&
           count_in_chain(readers_[k], first) == readers_[k].size();
  }

  std::size_t count_in_chain(const std::set<std::size_t>& kernels, std::size_t first) const {
    std::size_t found = 0;
    for (std::size_t at = first; at != kNone; at = next_[at]) found += kernels.count(at);
    return found;
  }

  bool is_output(std::size_t k) const {
    return std::ranges::any_of(kernel(k).group.outputs,
                               [&](ValueId id) { return graph_.is_output(id); });
  }

  /// Are all readers of k's results in the chain that begins with the first one, or branches of it?
  bool has_readers_in_chain(std::size_t k) const {
    const std::size_t first = first_reader(k);
    return std::ranges::all_of(readers_[k], [&](std::size_t reader) {
      return count_in_chain({reader}, first) > 0 || is_branch_of(reader, first);
    });
  }

  /// Does `reader` convert a result of `k` while it loads it?
  bool converts(std::size_t reader, std::size_t k) const {
    const std::vector<ValueId>& outputs = kernel(k).group.outputs;
    return std::ranges::any_of(kernel(reader).group.casts, [&](NodeId cast) {
      return std::ranges::find(outputs, graph_.node(cast).inputs[0]) != outputs.end();
    });
  }

  std::vector<Chain> find_chains() const {
    std::vector<bool> seen(plan_.kernels.size(), false);
    std::vector<Chain> chains;
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
      Chain chain;
      for (std::size_t at = k; at != kNone && !seen[at]; at = next_[at]) {
        seen[at] = true;
        chain.push_back(at);
      }
      if (!chain.empty()) chains.push_back(std::move(chain));
    }
    return chains;
  }

  /// How to cut all chains, some of them with their branches.
  std::vector<Cut> cut_all(const std::vector<Chain>& chains) {
    std::vector<Cut> cuts;
    for (const Chain& chain : chains) cuts.push_back(cut(chain));
    std::vector<bool> done(chains.size(), false);
    std::vector<Cut> result;
    for (std::size_t c = 0; c < chains.size(); ++c) {
      if (done[c]) continue;
      const std::vector<std::size_t> branches = branches_of(chains, c, done);
      Chain all = chains[c];
      double us = cuts[c].us;
      for (const std::size_t branch : branches) {
        all.insert(all.end(), chains[branch].begin(), chains[branch].end());
        us += cuts[branch].us;
      }
      if (!branches.empty()) {
        std::ranges::sort(all);
        Cut with_branches = cut(all);
        if (with_branches.us < us) {
          for (const std::size_t branch : branches) done[branch] = true;
          cuts[c] = std::move(with_branches);
        }
      }
      result.push_back(std::move(cuts[c]));
    }
    return result;
  }

  /// Chains that lie between the first and the last kernel of chain c, or single kernels before the
  /// last, that only it, and its other branches, read.
  std::vector<std::size_t> branches_of(const std::vector<Chain>& chains, std::size_t c,
                                       const std::vector<bool>& done) const {
    std::set<std::size_t> inside(chains[c].begin(), chains[c].end());
    std::vector<std::size_t> branches;
    for (std::size_t b = chains.size(); b-- > 0;) {
      const Chain& chain = chains[b];
      const bool before = chain.size() > 1 && chain.front() < chains[c].front();
      if (b == c || done[b] || before || chain.back() > chains[c].back()) continue;
      const std::set<std::size_t> own(chain.begin(), chain.end());
      const bool read_inside = std::ranges::all_of(chain, [&](std::size_t k) {
        return !is_output(k) && std::ranges::all_of(readers_[k], [&](std::size_t reader) {
          return own.contains(reader) || inside.contains(reader);
        });
      });
      if (!read_inside) continue;
      branches.push_back(b);
      inside.insert(chain.begin(), chain.end());
    }
    return branches;
  }

  /// Kernels first .. last of a chain that lead to the last; none if the first does not.
  std::vector<std::size_t> leading(const Chain& chain, std::size_t first, std::size_t last) const {
    std::set<std::size_t> kernels = {chain[last]};
    for (std::size_t i = last; i-- > first;) {
      if (std::ranges::any_of(readers_[chain[i]],
                              [&](std::size_t reader) { return kernels.contains(reader); }))
        kernels.insert(chain[i]);
    }
    if (!kernels.contains(chain[first])) return {};
    return {kernels.begin(), kernels.end()};
  }

  /// Those who read a result of these kernels but their last come after it, or are among them.
  bool is_closed(const std::vector<std::size_t>& kernels) const {
    return std::ranges::all_of(kernels, [&](std::size_t k) {
      return std::ranges::all_of(readers_[k], [&](std::size_t reader) {
        return reader > kernels.back() || std::ranges::binary_search(kernels, reader);
      });
    });
  }

  /// Does somebody read the value who is not one of these kernels, or is it an output of the
  /// network?
  bool is_needed(ValueId id, const std::vector<std::size_t>& kernels) const {
    if (graph_.is_output(id)) return true;
    const auto readers = readers_of_.find(id);
    return readers != readers_of_.end() &&
           std::ranges::any_of(readers->second, [&](std::size_t reader) {
             return !std::ranges::binary_search(kernels, reader);
           });
  }

  KernelPlan joined(const std::vector<std::size_t>& kernels) const {
    KernelPlan result;
    result.kind = KernelKind::kGroup;
    Group& group = result.group;
    std::set<ValueId> made;
    for (const std::size_t k : kernels) {
      const Group& part = kernel(k).group;
      add_members(group, part);
      group.casts.insert(group.casts.end(), part.casts.begin(), part.casts.end());
      for (const ValueId id : part.inputs) {
        if (!made.contains(id) && std::ranges::find(group.inputs, id) == group.inputs.end())
          group.inputs.push_back(id);
      }
      made.insert(part.outputs.begin(), part.outputs.end());
    }
    group.outputs = kernel(kernels.back()).group.outputs;
    for (const std::size_t k : kernels | std::views::take(std::ssize(kernels) - 1)) {
      for (const ValueId id : kernel(k).group.outputs) {
        if (is_needed(id, kernels)) group.outputs.push_back(id);
      }
    }
    return result;
  }

  /// The members of a kernel; a node of several results is one member for each.
  static void add_members(Group& group, const Group& part) {
    if (!part.single() || part.outputs.size() <= 1) {
      group.members.insert(group.members.end(), part.members.begin(), part.members.end());
      return;
    }
    for (const ValueId id : part.outputs)
      group.members.push_back({part.members[0].anchor, part.members[0].epilogue, id});
  }

  double us_of(std::size_t k) {
    if (us_[k] == kUnknown) {
      us_[k] = kernel(k).family == "view"
                   ? 0
                   : ways_of(plan_, kernel(k), *registry_, {}).front().est_us * copied_share(k) *
                         weight_;
    }
    return us_[k];
  }

  /// What a kernel that moves channels copies of them: the others will be views (view.cpp).
  double copied_share(std::size_t k) const {
    const Group& group = kernel(k).group;
    if (!group.single()) return 1;
    const Node& node = graph_.node(group.members[0].anchor);
    if (!moves_channels(graph_, node) || graph_.value(node.inputs[0]).is_constant()) return 1;
    const bool together = node.as<Concat>() != nullptr;
    double copied = 0, all = 0;
    for (const ValueId id : together ? node.inputs : group.outputs) {
      const auto channels = static_cast<double>(graph_.value(id).shape[1]);
      all += channels;
      const auto producer = producer_.find(id);
      const bool written =
          !together || (producer != producer_.end() && takes_pitch(producer->second) &&
                        !cuts(producer->second) && std::ranges::count(node.inputs, id) == 1);
      const auto readers = readers_of_.find(id);
      const bool read = readers == readers_of_.end() ||
                        std::ranges::all_of(readers->second, [&](std::size_t reader) {
                          return takes_pitch(reader);
                        });
      if (!written || !read || graph_.is_output(id)) copied += channels;
    }
    return all > 0 ? copied / all : 1;
  }

  bool takes_pitch(std::size_t k) const { return family_of(*registry_, kernel(k).family).pitched; }
  /// Are the kernel's results parts of what it reads?
  bool cuts(std::size_t k) const {
    const Node& node = graph_.node(kernel(k).group.members[0].anchor);
    return node.as<Concat>() == nullptr && moves_channels(graph_, node);
  }

  Cut cut(const Chain& chain) {
    const std::size_t count = chain.size();
    std::vector<std::vector<Stretch>> ending(count);  // by last member
    Cut result;
    for (std::size_t last = 0; last < count; ++last) {
      for (std::size_t first = last >= kLongest ? last - kLongest + 1 : 0; first < last; ++first) {
        std::vector<std::size_t> kernels = leading(chain, first, last);
        if (!kernels.empty() && is_closed(kernels))
          offer(chain, {first, last, std::move(kernels)}, ending[last], result.missed);
      }
    }

    std::vector<double> best = {0};  // us of members 0 .. i - 1
    std::vector<Stretch*> choice;    // what ends with member i; null: a kernel of its own
    for (std::size_t last = 0; last < count; ++last) {
      best.push_back(best[last] + us_of(chain[last]));
      choice.push_back(nullptr);
      const auto us_with = [&best](const Stretch& stretch) {
        return best[stretch.first] + stretch.us + stretch.left_out_us;
      };
      for (const Stretch& stretch : ending[last])
        best.back() = std::min(best.back(), us_with(stretch));
      const auto longest = std::ranges::find_if(ending[last], [&](const Stretch& stretch) {
        return us_with(stretch) <= best.back() + (kTie - 1) * stretch.us;
      });
      if (longest == ending[last].end()) continue;
      best.back() = us_with(*longest);
      choice.back() = &*longest;
    }
    result.us = best.back();
    for (const auto& list : ending) {
      for (const Stretch& stretch : list) {
        // Of several families' the fastest is told.
        if (std::ranges::any_of(list, [&](const Stretch& other) {
              return other.first == stretch.first && other.us < stretch.us;
            }))
          continue;
        result.missed.push_back(
            {stretch, "slower",
             fmt::format("one kernel of {} would take {:.2f} us, those that are made "
                         "take {:.2f} us",
                         stretch.kernel.family, stretch.us,
                         best[stretch.last + 1] - best[stretch.first] - stretch.left_out_us)});
      }
    }
    for (std::size_t last = count; last-- > 0;) {
      if (choice[last] == nullptr) continue;
      const std::size_t first = choice[last]->first;
      result.made.push_back(std::move(*choice[last]));
      last = first;
    }
    return result;
  }

  void make(Cut& cut) {
    record(cut);
    for (Stretch& stretch : cut.made) {
      for (const std::size_t k : stretch.kernels) joined_[k] = k != stretch.kernels.back();
      plan_.kernels[stretch.kernels.back()] = std::move(stretch.kernel);
    }
  }

  /// Are these kernels of one backend? What the user wants from another one stays there.
  bool is_of(const std::vector<std::size_t>& kernels, std::string_view backend) const {
    return std::ranges::all_of(kernels, [&](std::size_t k) {
      return kernel(k).family == "view" || kernel(k).backend == backend;
    });
  }

  /// Asks every family that joins for the range.
  void offer(const Chain& chain, const Range& range, std::vector<Stretch>& stretches,
             std::vector<Missed>& missed) {
    const KernelPlan whole = joined(range.kernels);
    const bool stores = whole.group.outputs.size() > kernel(chain[range.last]).group.outputs.size();
    for (const KernelFamily* row : families_) {
      if (!is_of(range.kernels, row->backend) || (stores && !row->stores)) continue;
      const Support support = row->joins(graph_, whole.group, plan_.device);
      if (!support.ok) {
        if (!support.rule.empty()) missed.push_back({range, support.rule, support.reason});
        continue;
      }
      Stretch& stretch = stretches.emplace_back(Stretch{range, whole, 0, 0});
      stretch.kernel.family = row->name;
      stretch.kernel.backend = row->backend;
      stretch.us = ways_of(plan_, stretch.kernel, *registry_, {}).front().est_us;
      for (std::size_t i = range.first; i < range.last; ++i) {
        if (!std::ranges::binary_search(range.kernels, chain[i]))
          stretch.left_out_us += us_of(chain[i]);
      }
    }
  }

  /// Of what was missed only the longest stretches are told, and none inside of one that was made.
  void record(const Cut& cut) {
    const std::vector<Missed>& missed = cut.missed;
    for (std::size_t i = 0; i < missed.size(); ++i) {
      const Missed& one = missed[i];
      bool hidden =
          std::ranges::any_of(cut.made, [&](const Stretch& made) { return made.holds(one); });
      for (std::size_t j = 0; j < missed.size(); ++j)
        hidden |= j != i && missed[j].holds(one) && (j < i || !one.holds(missed[j]));
      if (hidden) continue;
      Refusal refusal{{}, one.rule, one.reason};
      for (const std::size_t k : one.kernels)
        refusal.nodes.push_back(graph_.node(kernel(k).group.members[0].anchor).id);
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
  std::map<ValueId, std::set<std::size_t>> readers_of_;
  std::map<ValueId, std::size_t> producer_;
  std::vector<std::size_t> next_;               // by kernel
  std::vector<std::set<std::size_t>> readers_;  // by kernel: of its results
  std::vector<double> us_;                      // by kernel: estimated, once it was asked for
  std::vector<bool> joined_;                    // by kernel: is part of the group of a later one
  const double weight_ = weight_of_parts();
};

}  // namespace

void join_groups(Plan& plan, const Registry& registry) { Joiner(plan, registry).join(); }

}  // namespace braze
