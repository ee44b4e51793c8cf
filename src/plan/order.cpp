#include "plan/order.hpp"

#include <algorithm>
#include <map>

namespace braze {

std::vector<std::vector<std::int32_t>> dependencies(const Plan& plan) {
  const auto root = [&plan](ValueId id) {
    while (plan.placements[static_cast<std::size_t>(id)].view_of != kNoValue)
      id = plan.placements[static_cast<std::size_t>(id)].view_of;
    return id;
  };
  std::map<ValueId, std::vector<std::int32_t>> writers;  // by storage
  std::vector<std::vector<std::int32_t>> result(plan.kernels.size());
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const Group& group = plan.kernels[k].group;
    for (const ValueId id : group.inputs) {
      const std::vector<std::int32_t>& made = writers[root(id)];
      result[k].insert(result[k].end(), made.begin(), made.end());
    }
    std::sort(result[k].begin(), result[k].end());
    result[k].erase(std::unique(result[k].begin(), result[k].end()), result[k].end());
    for (const ValueId id : group.outputs) {
      std::vector<std::int32_t>& made = writers[root(id)];
      if (made.empty() || made.back() != static_cast<std::int32_t>(k))
        made.push_back(static_cast<std::int32_t>(k));
    }
  }
  return result;
}

Order::Order(const Plan& plan) {
  one_stream_ = std::all_of(plan.kernels.begin(), plan.kernels.end(),
                            [](const KernelPlan& kernel) { return kernel.stream == 0; });
  if (one_stream_) return;
  words_ = (plan.kernels.size() + 63) / 64;
  ended_.assign(words_ * plan.kernels.size(), 0);
  std::map<std::int32_t, std::int32_t> last;  // kernel of each stream
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const KernelPlan& kernel = plan.kernels[k];
    const auto add = [&](std::int32_t before) {
      const auto p = static_cast<std::size_t>(before);
      for (std::size_t w = 0; w < words_; ++w) ended_[k * words_ + w] |= ended_[p * words_ + w];
      ended_[k * words_ + p / 64] |= std::uint64_t{1} << (p % 64);
    };
    const auto [found, first] = last.try_emplace(kernel.stream, static_cast<std::int32_t>(k));
    if (!first) add(found->second);
    for (const std::int32_t other : kernel.waits) add(other);
    found->second = static_cast<std::int32_t>(k);
  }
}

}  // namespace braze
