// Softmax on one line of elements after another.
#pragma once

#include <cstdint>

namespace braze::cpu {

/// `count` lines of `extent` elements. Steps in elements.
///   rows: a line's elements lie together, lines are a step apart;
///   columns: lines lie together, their elements are a step apart.
struct SoftmaxTile {
  const float* x = nullptr;
  float* y = nullptr;  // may be x
  std::int64_t x_step = 0, y_step = 0;
  std::int64_t extent = 0, count = 0;
  bool log = false;
};
using SoftmaxFn = void (*)(const SoftmaxTile&);

/// Of the instruction set in force.
SoftmaxFn softmax_rows_function();
SoftmaxFn softmax_columns_function();

}  // namespace braze::cpu
