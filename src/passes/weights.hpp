// Constant weights and biases of the operators that are linear in x and mix channels: Conv,
// ConvTranspose, Gemm.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/elements.hpp"
#include "graph/graph.hpp"

namespace braze {

/// Is it a Conv, a ConvTranspose, or a Gemm whose x is not transposed?
bool has_weights(const Node& node);

/// The channels of x and y (their axis 1) that one weight connects.
struct WeightChannels {
  std::size_t in = 0;
  std::size_t out = 0;
};

/// Goes through weights in their order with the channels of each.
///   Conv           w [K, C/group, taps]: out = k, in = group(k) * C/group + i
///   ConvTranspose  w [C, K/group, taps]: in = c, out = group(c) * K/group + i
///   Gemm           b [C, K], or [K, C] transposed
class WeightMap {
 public:
  WeightMap(const Node& node, const Shape& weights);

  /// Calls f(place, channels) for each weight.
  template <class F>
  void each(F&& f) const {
    for (std::size_t row = 0, place = 0; row < rows_; ++row) {
      for (std::size_t i = 0; i < columns_; ++i) {
        const std::size_t column = row / rows_per_group_ * columns_ + i;
        const WeightChannels at =
            rows_are_outputs_ ? WeightChannels{column, row} : WeightChannels{row, column};
        for (std::size_t tap = 0; tap < taps_; ++tap) f(place++, at);
      }
    }
  }

 private:
  std::size_t rows_;
  std::size_t rows_per_group_;
  std::size_t columns_;
  std::size_t taps_;
  bool rows_are_outputs_;
};

/// The bias per output channel, zeros where there is none, with Gemm's beta in it; nullopt where it
/// is not a constant per channel. `channels` is the extent of y's axis 1.
std::optional<std::vector<double>> bias_of(const Graph& graph, const Node& node,
                                           std::int64_t channels);

/// A copy of `weights` in which each is what `f(channels, weight)`, computed in double, rounds to.
template <class F>
Tensor map_weights(const Tensor& weights, const WeightMap& map, F&& f) {
  Tensor mapped = Tensor::make(weights.dtype(), weights.shape());
  visit_storage(mapped.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = weights.as<T>();
    T* to = mapped.as<T>();
    map.each([&](std::size_t place, WeightChannels at) {
      to[place] = convert<T>(f(at, convert<double>(from[place])));
    });
  });
  return mapped;
}

/// Gives the node other weights and a bias ([K] of x's dtype). What others share is left alone.
void set_weights(Graph& graph, NodeId node, Tensor weights);
void set_bias(Graph& graph, NodeId node, Tensor bias);

}  // namespace braze
