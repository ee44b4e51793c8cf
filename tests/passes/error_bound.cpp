#include "passes/error_bound.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/elements.hpp"
#include "graph/interpret.hpp"
#include "passes/match.hpp"

namespace braze::test {
namespace {

using Doubles = std::vector<double>;

Doubles magnitudes(Doubles values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

/// Place in a broadcast operand of the element at `place` of the output.
std::size_t operand_place(std::size_t place, const Shape& output, const Shape& operand) {
  std::size_t result = 0;
  std::size_t stride = 1;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const auto extent = static_cast<std::size_t>(output[output.size() - 1 - i]);
    const std::size_t at = place % extent;
    place /= extent;
    if (i >= operand.size()) continue;
    const auto own = static_cast<std::size_t>(operand[operand.size() - 1 - i]);
    result += own == 1 ? 0 : at * stride;
    stride *= own;
  }
  return result;
}

/// Error analysis of one node: value(i), error(i) of its inputs to the error of its output.
class NodeAnalysis {
 public:
  NodeAnalysis(const Graph& graph, const Node& node, const std::vector<Tensor>& values,
               const std::vector<Doubles>& errors)
      : graph_(graph), node_(node), values_(values), errors_(errors) {
    y_ = load<double>(values_[static_cast<std::size_t>(node.output())]);
    u_ = unit_roundoff(graph.value(node.output()).dtype);
  }

  Doubles operator()(const Unary& op) const {
    return rounded(each([&](std::size_t i) {
      const double x = value(0)[i];
      const double e = error(0)[i];
      return std::max(std::abs(evaluate(op, x + e) - evaluate(op, x)),
                      std::abs(evaluate(op, x - e) - evaluate(op, x)));
    }));
  }
  Doubles operator()(const Binary& op) const {
    const Doubles a = value(0), b = value(1), ea = error(0), eb = error(1);
    const Shape& shape = graph_.value(node_.output()).shape;
    return rounded(each([&](std::size_t place) {
      const std::size_t i = operand_place(place, shape, graph_.value(node_.input(0)).shape);
      const std::size_t j = operand_place(place, shape, graph_.value(node_.input(1)).shape);
      const double exact = evaluate(op.fn, a[i], b[j]);
      double worst = 0;
      for (const double da : {-ea[i], ea[i]}) {
        for (const double db : {-eb[j], eb[j]}) {
          worst = std::max(worst, std::abs(evaluate(op.fn, a[i] + da, b[j] + db) - exact));
        }
      }
      return worst;
    }));
  }
  Doubles operator()(const Conv& op) const { return bilinear(op); }
  Doubles operator()(const ConvTranspose& op) const { return bilinear(op); }
  Doubles operator()(const MatMul& op) const { return bilinear(op); }
  Doubles operator()(const Gemm& op) const {
    Gemm positive = op;
    positive.alpha = std::abs(op.alpha);
    positive.beta = std::abs(op.beta);
    return bilinear(positive);
  }
  Doubles operator()(const BatchNorm& op) const {
    const Doubles x = value(0), e = error(0), gamma = value(1), beta = value(2), mean = value(3),
                  variance = value(4);
    return each([&](std::size_t i) {
      const std::size_t c = channel(i);
      const double scale = std::abs(gamma[c]) / std::sqrt(variance[c] + op.epsilon);
      return scale * (e[i] + 2 * u_ * (std::abs(x[i]) + std::abs(mean[c]))) +
             2 * u_ * std::abs(beta[c]);
    });
  }
  Doubles operator()(const InstanceNorm& op) const {
    const Doubles x = value(0), e = error(0), gamma = value(1), beta = value(2);
    const std::size_t image = image_size();
    Doubles result(y_.size());
    for (std::size_t begin = 0; begin < x.size(); begin += image) {
      const auto mean_over_image = [&](auto&& term) {
        double sum = 0;
        for (std::size_t i = begin; i < begin + image; ++i) sum += term(i);
        return sum / static_cast<double>(image);
      };
      const double mean = mean_over_image([&](std::size_t i) { return x[i]; });
      const double mean_error =
          mean_over_image([&](std::size_t i) { return e[i] + u_ * std::abs(x[i]); });
      const auto d = [&](std::size_t i) { return std::abs(x[i] - mean); };
      const auto d_error = [&](std::size_t i) { return e[i] + mean_error + u_ * d(i); };
      const double variance =
          mean_over_image([&](std::size_t i) { return d(i) * d(i); }) + op.epsilon;
      const double variance_error =
          mean_over_image([&](std::size_t i) { return 2 * d(i) * d_error(i); }) + u_ * variance;
      const double deviation = std::sqrt(variance);
      for (std::size_t i = begin; i < begin + image; ++i) {
        const double g = std::abs(gamma[channel(i)]);
        result[i] =
            g * (d_error(i) / deviation + d(i) * variance_error / (2 * variance * deviation)) +
            2 * u_ * (g * d(i) / deviation + std::abs(beta[channel(i)]));
      }
    }
    return result;
  }
  Doubles operator()(const Cast& op) const { return rounded(moved(op)); }
  Doubles operator()(const Reduce& op) const { return averaging(op); }
  Doubles operator()(const Pool& op) const { return averaging(op); }
  Doubles operator()(const Resize& op) const { return averaging(op); }
  Doubles operator()(const Pad& op) const {
    Pad zeros = op;
    zeros.value = 0;
    return moved(zeros);
  }
  template <class Op>
  Doubles operator()(const Op& op) const {
    return moved(op);
  }

 private:
  [[nodiscard]] Doubles value(std::size_t i) const {
    return load<double>(values_[static_cast<std::size_t>(node_.inputs[i])]);
  }
  [[nodiscard]] const Doubles& error(std::size_t i) const {
    return errors_[static_cast<std::size_t>(node_.inputs[i])];
  }

  template <class F>
  Doubles each(F&& f) const {
    Doubles result(y_.size());
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = f(i);
    return result;
  }
  [[nodiscard]] std::size_t image_size() const {
    const Shape& shape = graph_.value(node_.output()).shape;
    return static_cast<std::size_t>(element_count({shape.begin() + 2, shape.end()}));
  }
  [[nodiscard]] std::size_t channel(std::size_t place) const {
    return place / image_size() % static_cast<std::size_t>(graph_.value(node_.output()).shape[1]);
  }
  /// ... and the result is rounded.
  [[nodiscard]] Doubles rounded(Doubles errors) const {
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] += u_ * std::abs(y_[i]);
    return errors;
  }

  /// What `op` in place of the node's makes of other inputs.
  template <class Op>
  Doubles run(const Op& op, const std::vector<Doubles>& inputs) const {
    Node node = node_;
    node.op = op;
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Value& value = graph_.value(node_.inputs[i]);
      tensors.push_back(make_tensor(value.dtype, value.shape, inputs[i]));
    }
    return load<double>(interpret_node(graph_, node, tensors).front());
  }
  /// y = x w + b for any product that is linear in each: |dx| |w| + |x| |dw| + |db| + 2 u (|x| |w|
  /// + |b|)
  template <class Op>
  Doubles bilinear(const Op& op) const {
    const Doubles x = magnitudes(value(0)), w = magnitudes(value(1));
    const bool has_bias = node_.inputs.size() > 2;
    const auto product = [&](const Doubles& a, const Doubles& b, const Doubles& c) {
      return has_bias ? run(op, {a, b, c}) : run(op, {a, b});
    };
    const Doubles bias = has_bias ? magnitudes(value(2)) : Doubles();
    const Doubles from_x = product(error(0), w, has_bias ? error(2) : Doubles());
    const Doubles from_w = product(x, error(1), Doubles(bias.size(), 0));
    const Doubles terms = product(x, w, bias);
    return each([&](std::size_t i) { return from_x[i] + from_w[i] + 2 * u_ * terms[i]; });
  }
  /// The output is a mean, sum or maximum of inputs, whose terms are rounded.
  template <class Op>
  Doubles averaging(const Op& op) const {
    Doubles terms = magnitudes(value(0));
    for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = error(0)[i] + u_ * terms[i];
    return run(op, {terms});
  }
  /// The output's elements are elements of the inputs, and so are the errors.
  template <class Op>
  Doubles moved(const Op& op) const {
    std::vector<Doubles> inputs;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      const bool is_data = is_float(graph_, node_.inputs[i]);
      inputs.push_back(is_data ? error(i) : value(i));
    }
    return run(op, inputs);
  }

  const Graph& graph_;
  const Node& node_;
  const std::vector<Tensor>& values_;
  const std::vector<Doubles>& errors_;
  Doubles y_;
  double u_ = 0;
};

}  // namespace

BoundedResults run_with_bounds(const Graph& graph, std::span<const Tensor> inputs,
                               int constant_roundings) {
  const std::vector<Tensor> values = interpret_all(graph, inputs);
  std::vector<Doubles> errors(values.size());
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    auto& error = errors[static_cast<std::size_t>(id)];
    if (value.is_constant() && is_float(value.dtype)) {
      error = magnitudes(load<double>(*value.constant));
      for (double& e : error) e *= constant_roundings * unit_roundoff(value.dtype);
    } else if (graph.is_input(id) || value.is_constant()) {
      error.assign(static_cast<std::size_t>(element_count(value.shape)), 0);
    }
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    errors[static_cast<std::size_t>(node.output())] =
        std::visit(NodeAnalysis(graph, node, values, errors), node.op);
  }
  BoundedResults results;
  for (const GraphOutput& output : graph.outputs) {
    results.values.push_back(values[static_cast<std::size_t>(output.value)]);
    results.bounds.push_back(errors[static_cast<std::size_t>(output.value)]);
  }
  return results;
}

void expect_same_results(const Graph& model, const Graph& simplified,
                         std::span<const Tensor> inputs) {
  const BoundedResults expected = run_with_bounds(model, inputs, 0);
  const BoundedResults actual = run_with_bounds(simplified, inputs, 2);
  ASSERT_EQ(expected.values.size(), actual.values.size());
  for (std::size_t output = 0; output < expected.values.size(); ++output) {
    ASSERT_EQ(expected.values[output].shape(), actual.values[output].shape());
    ASSERT_EQ(expected.values[output].dtype(), actual.values[output].dtype());
    const Doubles a = load<double>(expected.values[output]);
    const Doubles b = load<double>(actual.values[output]);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      const double bound = expected.bounds[output][i] + actual.bounds[output][i];
      ASSERT_TRUE(std::isfinite(a[i]) && std::abs(a[i] - b[i]) <= bound)
          << "output " << simplified.outputs[output].name << " element " << i << ": " << b[i]
          << ", the model gives " << a[i] << "; they may differ by " << bound << "\n"
          << print(model) << "simplified:\n"
          << print(simplified);
    }
  }
}

}  // namespace braze::test
