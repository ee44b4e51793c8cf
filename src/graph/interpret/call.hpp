// One run of one node: its tensors, and the helpers that its function computes with.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "graph/elements.hpp"
#include "graph/infer/infer.hpp"

namespace braze::graph {

/// The inputs of a node, and its outputs: allocated with their dtype and shape, to be filled. An
/// absent one is undefined.
class Call {
 public:
  Call(const Graph& graph, const Node& node, std::span<const Tensor> inputs);

  [[nodiscard]] bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].defined(); }
  [[nodiscard]] std::size_t input_count() const { return inputs_.size(); }
  [[nodiscard]] const Tensor& input(std::size_t i) const { return inputs_[i]; }
  [[nodiscard]] const Shape& shape(std::size_t i = 0) const { return inputs_[i].shape(); }
  [[nodiscard]] bool wants(std::size_t i) const {
    return i < outputs_.size() && outputs_[i].defined();
  }
  [[nodiscard]] std::size_t output_count() const { return outputs_.size(); }
  [[nodiscard]] Tensor& output(std::size_t i = 0) { return outputs_[i]; }
  [[nodiscard]] NodeView node() const { return {*graph_, *node_}; }
  std::vector<Tensor> take_outputs() { return std::move(outputs_); }

  template <class T>
  [[nodiscard]] std::vector<T> load(std::size_t i) const {
    return braze::load<T>(inputs_[i]);
  }
  /// The only element of input i.
  template <class T>
  [[nodiscard]] T scalar(std::size_t i) const {
    return braze::load<T>(inputs_[i]).front();
  }
  /// Rounds each value once to output 0's dtype.
  template <class T>
  void store(const std::vector<T>& values) {
    braze::store(std::span<const T>(values), outputs_[0]);
  }

 private:
  const Graph* graph_;
  const Node* node_;
  std::span<const Tensor> inputs_;
  std::vector<Tensor> outputs_;
};

/// Calls f(C{}) with the type in which elements of a dtype are computed: double, std::int64_t or
/// std::uint64_t.
template <class F>
void visit_compute(DType dtype, F&& f) {
  if (is_float(dtype)) {
    f(double{});
  } else if (dtype == DType::kUInt64) {
    f(std::uint64_t{});
  } else {
    f(std::int64_t{});
  }
}

/// Elements from one index of each axis to the next in a dense row-major tensor.
Ints dense_strides(const Shape& shape);
/// Strides with which a tensor of `shape` is read for each element of `output`: 0 along the axes
/// that are broadcast.
Ints broadcast_strides(const Shape& shape, const Shape& output);

/// Visits the elements of `shape` in row-major order. f receives one offset per operand: the sum of
/// index * stride.
template <std::size_t kOperands, class F>
void for_each_element(const Shape& shape, const std::array<Ints, kOperands>& strides, F&& f) {
  if (element_count(shape) == 0) return;
  std::array<std::int64_t, kOperands> offsets{};
  Shape index(shape.size(), 0);
  for (;;) {
    f(offsets);
    std::size_t axis = shape.size();
    while (axis > 0) {
      --axis;
      const bool carry = ++index[axis] == shape[axis];
      if (carry) index[axis] = 0;
      for (std::size_t k = 0; k < kOperands; ++k) {
        offsets[k] += carry ? -strides[k][axis] * (shape[axis] - 1) : strides[k][axis];
      }
      if (!carry) break;
      if (axis == 0) return;
    }
    if (shape.empty()) return;
  }
}

/// Output element [i0, i1, ...] of `view`, the output's elements in any factorisation, is the input
/// element at the sum of tables[axis][i_axis]. kOutside in a table stands for `fill`, a tensor of
/// one element of the same dtype.
inline constexpr std::int64_t kOutside = -(std::int64_t{1} << 56);
void copy_elements(const Tensor& from, Tensor& to, const std::vector<Ints>& tables,
                   const Tensor& fill = {});
/// 0, stride, 2 * stride, ... of `count` entries.
Ints steps(std::int64_t count, std::int64_t stride);

#define BRAZE_DECLARE(Name) void run_op(const Name& op, Call& call);
BRAZE_OPS(BRAZE_DECLARE)
#undef BRAZE_DECLARE

}  // namespace braze::graph
