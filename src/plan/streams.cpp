// Which kernels of a GPU's plan run at once.
//
// A fork is a kernel (or the beginning) that several kernels read; its join is the first kernel (or
// the end) that every way from it comes to. What lies between falls into branches that do not read
// each other. Branches run at once where
//   the largest kernels of the streams together leave no multiprocessor to be shared, and
//   sum of all branches - longest stream - kCrossings * (launch + shortest kernel)
//     > kGain * sum of all branches:
// each fork and join costs a whole end and beginning of kernels, which follow each other in a
// stream without one (programmatic dependent launch).
#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "plan/order.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

/// More are not worth their events: the networks that have more branches have short ones.
constexpr int kMostStreams = 4;
/// Launch times that a fork and its join cost more than kernels of one stream.
constexpr double kCrossings = 4;
/// Least part of a fork's time to gain: estimates are off by this much.
constexpr double kGain = 0.2;
/// Kernels that a stream beside the main one must have.
constexpr std::size_t kFewestKernels = 2;
/// Threads that a multiprocessor holds: what kernels keep busy that do not say so themselves.
constexpr double kThreads = 2048;

/// A fork whose branches are dealt out to streams.
struct Fork {
  double gain_us = 0;
  std::vector<std::vector<std::int32_t>> streams;  // kernels of each, ascending
};

class StreamPlanner {
 public:
  explicit StreamPlanner(Plan& plan)
      : plan_(plan),
        count_(static_cast<std::int32_t>(plan.kernels.size())),
        most_(plan.options.streams > 0 ? plan.options.streams : kMostStreams) {}

  void assign() {
    if (plan_.device.kind != DeviceKind::kCuda || most_ < 2 || count_ < 3) return;
    find_readers();
    find_joins();
    std::vector<Fork> forks;
    for (std::int32_t at = -1; at < count_; ++at) {
      if (std::optional<Fork> fork = consider(at)) forks.push_back(std::move(*fork));
    }
    std::sort(forks.begin(), forks.end(), [](const Fork& a, const Fork& b) {
      return a.gain_us != b.gain_us ? a.gain_us > b.gain_us : a.streams < b.streams;
    });
    std::vector<bool> taken(plan_.kernels.size(), false);
    for (const Fork& fork : forks) take(fork, taken);
  }

 private:
  KernelPlan& kernel(std::int32_t k) { return plan_.kernels[static_cast<std::size_t>(k)]; }
  /// Slot of a kernel where the beginning, -1, has one too.
  static std::size_t slot(std::int32_t k) { return static_cast<std::size_t>(k) + 1; }

  void find_readers() {
    readers_.resize(plan_.kernels.size() + 1);
    depends_ = dependencies(plan_);
    for (std::int32_t k = 0; k < count_; ++k) {
      const std::vector<std::int32_t>& made_by = depends_[static_cast<std::size_t>(k)];
      if (made_by.empty()) readers_[slot(-1)].push_back(k);
      for (const std::int32_t maker : made_by) readers_[slot(maker)].push_back(k);
    }
  }

  /// The immediate post-dominator of each kernel; count_ is the end.
  void find_joins() {
    join_.assign(plan_.kernels.size() + 1, count_);
    std::vector<int> depth(plan_.kernels.size() + 2, 0);  // of a kernel in the tree of joins
    const auto up = [&](std::int32_t k) { return join_[slot(k)]; };
    for (std::int32_t k = count_ - 1; k >= -1; --k) {
      std::optional<std::int32_t> common;
      for (std::int32_t reader : readers_[slot(k)]) {
        std::int32_t other = common.value_or(reader);
        while (reader != other) {
          std::int32_t& deeper = depth[slot(reader)] >= depth[slot(other)] ? reader : other;
          deeper = up(deeper);
        }
        common = reader;
      }
      join_[slot(k)] = common.value_or(count_);
      depth[slot(k)] = depth[slot(join_[slot(k)])] + 1;
    }
  }

  /// What lies between a fork and its join, ascending.
  [[nodiscard]] std::vector<std::int32_t> between(std::int32_t fork) const {
    const std::int32_t join = join_[slot(fork)];
    std::vector<bool> seen(plan_.kernels.size(), false);
    std::vector<std::int32_t> inside, next = readers_[slot(fork)];
    while (!next.empty()) {
      const std::int32_t k = next.back();
      next.pop_back();
      if (k == join || seen[static_cast<std::size_t>(k)]) continue;
      seen[static_cast<std::size_t>(k)] = true;
      inside.push_back(k);
      next.insert(next.end(), readers_[slot(k)].begin(), readers_[slot(k)].end());
    }
    std::sort(inside.begin(), inside.end());
    return inside;
  }

  /// Kernels that read each other, directly or not, among those inside.
  [[nodiscard]] std::vector<std::vector<std::int32_t>> branches(
      const std::vector<std::int32_t>& inside) const {
    std::vector<std::size_t> of(inside.size());
    std::iota(of.begin(), of.end(), std::size_t{0});
    const auto find = [&](std::size_t i) {
      while (of[i] != i) i = of[i] = of[of[i]];
      return i;
    };
    for (std::size_t i = 0; i < inside.size(); ++i) {
      for (const std::int32_t maker : depends_[static_cast<std::size_t>(inside[i])]) {
        const auto at = std::lower_bound(inside.begin(), inside.end(), maker);
        if (at != inside.end() && *at == maker)
          of[find(i)] = find(static_cast<std::size_t>(at - inside.begin()));
      }
    }
    std::vector<std::vector<std::int32_t>> result(inside.size());
    for (std::size_t i = 0; i < inside.size(); ++i) result[find(i)].push_back(inside[i]);
    std::erase_if(result, [](const auto& branch) { return branch.empty(); });
    return result;
  }

  /// Multiprocessors that a kernel keeps busy.
  [[nodiscard]] double units(const KernelPlan& kernel) const {
    if (kernel.kind == KernelKind::kReference || kernel.backend == "cudnn")
      return plan_.device.units;
    if (kernel.work.units > 0) return kernel.work.units;
    std::int64_t elements = 0;
    for (const auto* ids : {&kernel.group.inputs, &kernel.group.outputs}) {
      for (const ValueId id : *ids)
        elements = std::max(elements, element_count(plan_.graph.value(id).shape));
    }
    return std::max(1.0, static_cast<double>(elements) / kThreads);
  }

  std::optional<Fork> consider(std::int32_t at) {
    if (readers_[slot(at)].size() < 2) return std::nullopt;
    std::vector<std::vector<std::int32_t>> parts = branches(between(at));
    if (parts.size() < 2) return std::nullopt;
    const auto time = [&](const std::vector<std::int32_t>& kernels) {
      double us = 0;
      for (const std::int32_t k : kernels) us += kernel(k).est_us;
      return us;
    };
    std::sort(parts.begin(), parts.end(), [&](const auto& a, const auto& b) {
      return time(a) != time(b) ? time(a) > time(b) : a < b;
    });
    std::optional<Fork> best;
    const auto most = std::min(parts.size(), static_cast<std::size_t>(most_));
    for (std::size_t streams = 2; streams <= most; ++streams) {
      std::optional<Fork> fork = deal(parts, streams, time);
      if (fork && (!best || fork->gain_us > best->gain_us)) best = std::move(fork);
    }
    return best;
  }

  /// Branches, longest first, each to the stream that is done first; nothing if that does not pay.
  template <class Time>
  std::optional<Fork> deal(const std::vector<std::vector<std::int32_t>>& parts, std::size_t streams,
                           const Time& time) {
    Fork fork;
    fork.streams.resize(streams);
    std::vector<double> us(streams, 0);
    for (const std::vector<std::int32_t>& part : parts) {
      const auto to = static_cast<std::size_t>(std::min_element(us.begin(), us.end()) - us.begin());
      us[to] += time(part);
      fork.streams[to].insert(fork.streams[to].end(), part.begin(), part.end());
    }
    double busy = 0;
    for (std::size_t s = 0; s < streams; ++s) {
      if (s > 0 && fork.streams[s].size() < kFewestKernels) return std::nullopt;
      double most = 0;
      for (const std::int32_t k : fork.streams[s]) most = std::max(most, units(kernel(k)));
      busy += most;
      std::sort(fork.streams[s].begin(), fork.streams[s].end());
    }
    if (busy > plan_.device.units) return std::nullopt;
    const double sum = std::accumulate(us.begin(), us.end(), 0.0);
    fork.gain_us = sum - *std::max_element(us.begin(), us.end()) -
                   kCrossings * (plan_.device.launch_us + plan_.device.kernel_us) *
                       static_cast<double>(streams - 1);
    if (fork.gain_us <= kGain * sum) return std::nullopt;
    return fork;
  }

  /// Forks do not nest: what has a stream keeps it.
  void take(const Fork& fork, std::vector<bool>& taken) {
    for (const auto& kernels : fork.streams) {
      for (const std::int32_t k : kernels)
        if (taken[static_cast<std::size_t>(k)]) return;
    }
    for (std::size_t s = 0; s < fork.streams.size(); ++s) {
      for (const std::int32_t k : fork.streams[s]) {
        taken[static_cast<std::size_t>(k)] = true;
        kernel(k).stream = static_cast<std::int32_t>(s);
      }
    }
  }

  Plan& plan_;
  std::int32_t count_;
  int most_;
  std::vector<std::vector<std::int32_t>> depends_, readers_;
  std::vector<std::int32_t> join_;
};

}  // namespace

void assign_waits(Plan& plan) {
  const std::vector<std::vector<std::int32_t>> depends = dependencies(plan);
  for (KernelPlan& kernel : plan.kernels) kernel.waits.clear();
  // What has ended when a kernel begins, as far as streams alone say so, and kernels that were
  // done.
  const auto count = plan.kernels.size();
  std::vector<std::vector<bool>> ended(count);
  std::vector<std::int32_t> last;  // kernel of each stream, or -1
  const auto add = [&](std::vector<bool>& to, std::int32_t k) {
    const std::vector<bool>& from = ended[static_cast<std::size_t>(k)];
    for (std::size_t i = 0; i < from.size(); ++i)
      if (from[i]) to[i] = true;
    to[static_cast<std::size_t>(k)] = true;
  };
  const bool several = std::any_of(plan.kernels.begin(), plan.kernels.end(),
                                   [](const KernelPlan& kernel) { return kernel.stream != 0; });
  if (!several) return;
  for (std::size_t k = 0; k < count; ++k) {
    KernelPlan& kernel = plan.kernels[k];
    ensure(kernel.stream >= 0, "a kernel has a stream");
    const auto stream = static_cast<std::size_t>(kernel.stream);
    if (last.size() <= stream) last.resize(stream + 1, -1);
    ended[k].assign(count, false);
    if (last[stream] >= 0) add(ended[k], last[stream]);
    for (auto made = depends[k].rbegin(); made != depends[k].rend(); ++made) {
      if (ended[k][static_cast<std::size_t>(*made)]) continue;
      kernel.waits.push_back(*made);
      add(ended[k], *made);
    }
    std::sort(kernel.waits.begin(), kernel.waits.end());
    last[stream] = static_cast<std::int32_t>(k);
  }
}

void assign_streams(Plan& plan) {
  StreamPlanner(plan).assign();
  assign_waits(plan);
}

}  // namespace braze
