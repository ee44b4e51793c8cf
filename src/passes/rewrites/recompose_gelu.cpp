// x / 2 * (1 + erf(x / sqrt(2))) = gelu(x)
// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) = gelu_tanh(x), also with x * (1 + 0.044715
// x^2) inside
#include <cmath>
#include <numbers>

#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/product.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

constexpr double kCubic = 0.044715;

struct RecomposeGelu {
  struct Match {
    NodeId root = kNoNode;
    ValueId x = kNoValue;
    UnaryFn fn = UnaryFn::kGelu;
    std::vector<NodeId> nodes;
  };

  /// Takes `values` and then nothing is left, and the coefficient is as expected.
  static bool is_product(const Graph& graph, Product product, double coefficient,
                         const std::vector<ValueId>& values) {
    for (const ValueId value : values) {
      if (!product.take(value)) return false;
    }
    return product.factors.empty() &&
           rounds_to(product.coefficient, coefficient, graph.value(values[0]).dtype);
  }

  static bool is_erf_argument(const Graph& graph, ValueId value, ValueId x,
                              std::vector<NodeId>& nodes) {
    const Product product = product_of_value(graph, value);
    nodes.insert(nodes.end(), product.nodes.begin(), product.nodes.end());
    return is_product(graph, product, std::numbers::sqrt2 / 2, {x});
  }

  /// Is `sum`, a factor of tanh's argument, x + 0.044715 x^3?
  static bool is_cubic(const Graph& graph, ValueId sum, ValueId x, std::vector<NodeId>& nodes) {
    const NodeId add = if_op(graph, sole_producer(graph, sum), BinaryFn::kAdd);
    if (add == kNoNode) return false;
    const ValueId cube = other_operand(graph.node(add), x);
    if (cube == kNoValue) return false;
    const Product product = product_of_value(graph, cube);
    nodes.push_back(add);
    nodes.insert(nodes.end(), product.nodes.begin(), product.nodes.end());
    return is_product(graph, product, kCubic, {x, x, x});
  }

  /// Is `sum` 1 + 0.044715 x^2?
  static bool is_quadratic(const Graph& graph, ValueId sum, ValueId x, std::vector<NodeId>& nodes) {
    const NodeId node = sole_producer(graph, sum);
    const auto add = scalar_op(graph, node, BinaryFn::kAdd);
    if (!add || add->c != 1) return false;
    const Product product = product_of_value(graph, add->x);
    nodes.push_back(node);
    nodes.insert(nodes.end(), product.nodes.begin(), product.nodes.end());
    return is_product(graph, product, kCubic, {x, x});
  }

  static bool is_tanh_argument(const Graph& graph, ValueId value, ValueId x,
                               std::vector<NodeId>& nodes) {
    Product product = product_of_value(graph, value);
    nodes.insert(nodes.end(), product.nodes.begin(), product.nodes.end());
    const double scale = std::sqrt(2 / std::numbers::pi);
    if (product.factors.empty() || !rounds_to(product.coefficient, scale, graph.value(x).dtype))
      return false;
    const bool has_x = product.take(x);
    if (product.factors.size() != 1) return false;
    const ValueId sum = product.factors.front();
    return has_x ? is_quadratic(graph, sum, x, nodes) : is_cubic(graph, sum, x, nodes);
  }

  /// The function f where `gate` is 2^k (1 + f(...)): then the product's coefficient must be
  /// 2^-(k+1).
  struct Gate {
    NodeId function = kNoNode;
    double scale = 1;
  };
  static std::optional<Gate> gate_of(const Graph& graph, ValueId gate, std::vector<NodeId>& nodes) {
    const NodeId node = sole_producer(graph, gate);
    const auto add = scalar_op(graph, node, BinaryFn::kAdd);
    if (!add) return std::nullopt;
    const Product inner = product_of_value(graph, add->x);
    if (inner.factors.size() != 1 || inner.coefficient != add->c) return std::nullopt;
    const NodeId function = sole_producer(graph, inner.factors.front());
    nodes.push_back(node);
    nodes.insert(nodes.end(), inner.nodes.begin(), inner.nodes.end());
    nodes.push_back(function);
    return Gate{function, add->c};
  }

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto product = product_of(graph, id);
    if (!product || product->factors.size() != 2) return std::nullopt;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const ValueId x = product->factors[1 - i];
      Match match{id, x, UnaryFn::kGelu, product->nodes};
      const auto gate = gate_of(graph, product->factors[i], match.nodes);
      if (!gate || product->coefficient * gate->scale != 0.5) continue;
      if (if_op(graph, gate->function, UnaryFn::kErf) != kNoNode) {
        if (is_erf_argument(graph, graph.node(gate->function).input(0), x, match.nodes))
          return match;
      } else if (if_op(graph, gate->function, UnaryFn::kTanh) != kNoNode) {
        match.fn = UnaryFn::kGeluTanh;
        if (is_tanh_argument(graph, graph.node(gate->function).input(0), x, match.nodes))
          return match;
      }
    }
    return std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    become(graph, match.root, Unary{match.fn}, {match.x});
    absorb(graph, match.root, match.nodes);
  }
};

}  // namespace

int recompose_gelu(Graph& graph) { return apply<RecomposeGelu>(graph); }

}  // namespace braze
