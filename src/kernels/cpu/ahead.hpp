// Memory that is fetched into the caches while something else is computed.
#pragma once

#include <cstdint>

namespace braze::cpu {

/// Lines to be fetched: `planes` x `rows` x `lines`. Steps in floats.
struct Ahead {
  static constexpr std::int64_t kLine = 16;  // floats of a cache line

  const float* from = nullptr;
  std::int64_t planes = 0, rows = 0, lines = 0;
  std::int64_t plane_step = 0, row_step = 0;
  std::int64_t plane = 0, row = 0, line = 0;  // the next one

  std::int64_t share = 0;  // lines of one fetch()

  [[nodiscard]] std::int64_t count() const { return planes * rows * lines; }
  void fetch() {
    for (std::int64_t number = share; number > 0 && plane < planes; --number) {
      __builtin_prefetch(from + plane * plane_step + row * row_step + line * kLine, 0, 2);
      if (++line < lines) continue;
      line = 0;
      if (++row < rows) continue;
      row = 0;
      ++plane;
    }
  }
};

}  // namespace braze::cpu
