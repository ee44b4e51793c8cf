#include "kernels/cuda/box.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.hpp"

namespace braze::cuda {

void collapse(std::vector<BoxAxis>& axes) {
  std::erase_if(axes, [](const BoxAxis& axis) { return axis.extent == 1; });
  std::sort(axes.begin(), axes.end(),
            [](const BoxAxis& a, const BoxAxis& b) { return a.strides > b.strides; });
  for (std::size_t i = axes.size(); i-- > 1;) {
    const BoxAxis inner = axes[i];
    BoxAxis& outer = axes[i - 1];
    bool one = true;
    for (std::size_t k = 0; k < inner.strides.size(); ++k)
      one = one && outer.strides[k] == inner.strides[k] * inner.extent;
    // The outermost extent is not asked for; the others have 31 bits.
    if (!one || (i > 1 && outer.extent * inner.extent > std::numeric_limits<int>::max())) continue;
    outer = {outer.extent * inner.extent, inner.strides};
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::uint32_t blocks_for(std::int64_t n, std::int64_t size) {
  const std::int64_t blocks = (n + size - 1) / size;
  if (blocks >= (1LL << 31))
    fail(ErrorCode::kUnsupported,
         "a kernel would have {} blocks of threads; a GPU runs less than 2^31 of one kernel",
         blocks);
  return static_cast<std::uint32_t>(blocks);
}

device::Divisor divisor_of(std::int64_t n) {
  ensure(n >= 0 && n < (std::int64_t{1} << 31), "a divisor fits 31 bits");
  const auto d = static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1));
  // With 2^(shift - 1) < d <= 2^shift, magic d = 2^(31 + shift) + e with 0 <= e < d: n e is less
  // than 2^(31 + shift), so it carries nothing into n magic / 2^(31 + shift).
  const auto shift = static_cast<unsigned>(std::bit_width(d - 1));
  const std::uint64_t magic = ((std::uint64_t{1} << (31 + shift)) + d - 1) / d;
  return {static_cast<int>(d), static_cast<unsigned>(magic), shift};
}

bool is_aligned(const Plan& plan, ValueId id, std::span<const std::int64_t> strides, int vector) {
  const Value& value = plan.graph.value(id);
  const auto size = static_cast<std::int64_t>(size_of(value.dtype));
  const std::int64_t unit = std::min<std::int64_t>(16, vector * size);
  const std::int64_t offset =
      value.is_constant() ? 0 : plan.placements[static_cast<std::size_t>(id)].offset;
  return offset % unit == 0 && std::all_of(strides.begin(), strides.end(),
                                           [&](std::int64_t s) { return s * size % unit == 0; });
}

int threads_for(std::int64_t tasks, const Device& device) {
  int threads = 256;
  while (threads > 64 && tasks < static_cast<std::int64_t>(threads) * device.units) threads /= 2;
  return threads;
}

}  // namespace braze::cuda
