// In which order the kernels of a plan run, where some may run at once.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace braze {

/// For each kernel the kernels before it that write what it reads, ascending. Values that share a
/// storage (views) count as one.
std::vector<std::vector<std::int32_t>> dependencies(const Plan& plan);

/// Which kernels have ended when another begins: those before it in its stream, those it waits for,
/// and what had ended when these began.
class Order {
 public:
  explicit Order(const Plan& plan);
  /// All kernels run one after another.
  [[nodiscard]] bool one_stream() const { return one_stream_; }
  /// Kernel a has ended when kernel b begins.
  [[nodiscard]] bool before(std::int32_t a, std::int32_t b) const {
    if (a >= b) return false;
    return one_stream_ ||
           (ended_[static_cast<std::size_t>(b) * words_ + static_cast<std::size_t>(a) / 64] >>
                (a % 64) &
            1) != 0;
  }

 private:
  bool one_stream_ = true;
  std::size_t words_ = 0;             // of a row
  std::vector<std::uint64_t> ended_;  // a row of bits for each kernel
};

}  // namespace braze
