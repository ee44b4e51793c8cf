// Matchers that read like the expression a graph computes:
//   EXPECT_THAT(result(graph), IsUnary(UnaryFn::kSilu, IsConv(IsInput("x"), IsConstant(),
//   IsConstant())));
// They print the graph when they fail.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace braze::test {

/// A value of a graph.
struct Ref {
  const Graph* graph = nullptr;
  ValueId id = kNoValue;
};

inline void PrintTo(const Ref& ref, std::ostream* out) {
  *out << (ref.id == kNoValue ? "(nothing)" : ref.graph->value(ref.id).name) << " in\n"
       << print(*ref.graph);
}

/// A graph output.
inline Ref result(const Graph& graph, std::size_t index = 0) {
  return {&graph, graph.outputs[index].value};
}

using RefMatcher = testing::Matcher<Ref>;

MATCHER_P(IsInput, name, std::string("is the input '") + name + "'") {
  return arg.id != kNoValue && arg.graph->is_input(arg.id) && arg.graph->value(arg.id).name == name;
}
MATCHER(IsConstant, "is a constant") {
  return arg.id != kNoValue && arg.graph->value(arg.id).is_constant();
}
MATCHER(IsAbsent, "is absent") { return arg.id == kNoValue; }

/// The node that makes `ref` has this kind and inputs that match, as many as there are matchers.
class MadeBy {
 public:
  using is_gtest_matcher = void;

  MadeBy(OpKind kind, std::vector<RefMatcher> inputs) : kind_(kind), inputs_(std::move(inputs)) {}
  MadeBy(UnaryFn fn, RefMatcher x) : MadeBy(OpKind::kUnary, {std::move(x)}) { unary_ = fn; }
  MadeBy(BinaryFn fn, RefMatcher a, RefMatcher b)
      : MadeBy(OpKind::kBinary, {std::move(a), std::move(b)}) {
    binary_ = fn;
  }

  bool MatchAndExplain(const Ref& ref, testing::MatchResultListener* listener) const {
    const NodeId id = ref.id == kNoValue ? kNoNode : ref.graph->producer(ref.id);
    if (id == kNoNode) {
      *listener << "which no node makes";
      return false;
    }
    const Node& node = ref.graph->node(id);
    const bool same_kind = node.kind() == kind_ && (!unary_ || node.as<Unary>()->fn == *unary_) &&
                           (!binary_ || node.as<Binary>()->fn == *binary_);
    if (!same_kind || node.inputs.size() != inputs_.size()) {
      *listener << "made by " << print(*ref.graph, node);
      return false;
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].MatchAndExplain(Ref{ref.graph, node.inputs[i]}, listener)) continue;
      *listener << " (input " << i << " of " << node.id << ")";
      return false;
    }
    return true;
  }

  void DescribeTo(std::ostream* out) const {
    *out << "is " << name() << "(";
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (i != 0) *out << ", ";
      inputs_[i].DescribeTo(out);
    }
    *out << ")";
  }
  void DescribeNegationTo(std::ostream* out) const {
    *out << "not ";
    DescribeTo(out);
  }

 private:
  [[nodiscard]] std::string name() const {
    if (unary_) return to_string(*unary_);
    return binary_ ? to_string(*binary_) : to_string(kind_);
  }

  OpKind kind_;
  std::vector<RefMatcher> inputs_;
  std::optional<UnaryFn> unary_;
  std::optional<BinaryFn> binary_;
};

template <class... Inputs>
RefMatcher Is(OpKind kind, Inputs... inputs) {
  return MadeBy(kind, {RefMatcher(inputs)...});
}
inline RefMatcher IsUnary(UnaryFn fn, RefMatcher x) { return MadeBy(fn, std::move(x)); }
inline RefMatcher IsBinary(BinaryFn fn, RefMatcher a, RefMatcher b) {
  return MadeBy(fn, std::move(a), std::move(b));
}

/// A convolution with constant weights and bias.
inline RefMatcher IsConv(RefMatcher x) {
  return Is(OpKind::kConv, std::move(x), IsConstant(), IsConstant());
}

/// The attributes of the node that makes `ref`; the test fails if there is no such node.
template <class Op>
const Op& op_of(const Ref& ref) {
  const NodeId node = ref.graph->producer(ref.id);
  if (node == kNoNode || ref.graph->node(node).as<Op>() == nullptr) {
    ADD_FAILURE() << "no such operator makes " << testing::PrintToString(ref);
    static const Op kNone{};
    return kNone;
  }
  return *ref.graph->node(node).as<Op>();
}

/// The numbers of live nodes.
inline std::size_t node_count(const Graph& graph) { return graph.order().size(); }

}  // namespace braze::test
