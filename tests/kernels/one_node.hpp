// One node, run by a kernel family in every layout it takes, against the interpreter.
#pragma once

#include <functional>
#include <string>

#include "graph/elements.hpp"
#include "graph/shape.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/harness.hpp"

namespace braze::cpu::testing {

/// A graph of one resolved node. Inputs are tensors with values; those listed in `constants` are
/// constants of the graph. An undefined tensor is an absent input.
struct OneNode {
  Graph graph;
  Group group;
  std::vector<Tensor> inputs;  // run-time ones, in the order of group.inputs

  OneNode(Attributes op, const std::vector<Tensor>& tensors,
          std::vector<std::size_t> constants = {}, std::size_t outputs = 1) {
    std::vector<ValueId> ids;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::string name = "in" + std::to_string(i);
      if (!tensors[i].defined()) {
        ids.push_back(kNoValue);
      } else if (std::find(constants.begin(), constants.end(), i) != constants.end()) {
        ids.push_back(graph.add_constant(name, tensors[i]));
      } else {
        ids.push_back(graph.add_value(name, tensors[i].dtype(), tensors[i].shape()));
        graph.value(ids.back()).known_rank = true;
        graph.inputs.push_back(ids.back());
        inputs.push_back(tensors[i]);
      }
    }
    std::vector<ValueId> outs;
    for (std::size_t i = 0; i < outputs; ++i)
      outs.push_back(graph.add_value("out" + std::to_string(i)));
    const NodeId node = graph.add_node(std::move(op), ids, outs, "node", {"node"});
    set_types(graph, node);
    Group::Member member;
    member.anchor = node;
    member.result = outs[0];
    group.members.push_back(member);
    group.inputs = graph.inputs;
    group.outputs = outs;
    for (std::size_t i = 0; i < outputs; ++i)
      graph.outputs.push_back({"out" + std::to_string(i), outs[i]});
  }

  /// Adds a pointwise node on the result as an epilogue step; `operand` (undefined: unary) is a
  /// run-time input or a constant.
  void then(Attributes op, const Tensor& operand = {}, bool constant = true, bool swapped = false) {
    const ValueId result = group.members[0].result;
    EpilogueStep step;
    step.swapped = swapped;
    if (const auto* unary = std::get_if<Unary>(&op)) step.unary = *unary;
    std::vector<ValueId> ins = {result};
    if (const auto* binary = std::get_if<Binary>(&op)) {
      step.binary = binary->fn;
      if (constant) {
        step.operand = graph.add_constant("operand" + std::to_string(graph.value_count()), operand);
      } else {
        step.operand = graph.add_value("operand" + std::to_string(graph.value_count()),
                                       operand.dtype(), operand.shape());
        graph.inputs.push_back(step.operand);
        group.inputs.push_back(step.operand);
        inputs.push_back(operand);
      }
      std::string why;
      const auto broadcast = classify_broadcast(operand.shape(), graph.value(result).shape, &why);
      ASSERT_TRUE(broadcast.has_value()) << why;
      step.broadcast = *broadcast;
      ins.insert(swapped ? ins.begin() : ins.end(), step.operand);
    }
    const std::string name = "step" + std::to_string(graph.value_count());
    const ValueId out = graph.add_value(name);
    step.node = graph.add_node(std::move(op), ins, {out}, name, {name});
    set_types(graph, step.node);
    group.members[0].epilogue.steps.push_back(step);
    group.members[0].result = out;
    group.outputs = {out};
    graph.outputs = {{name, out}};
  }
};

/// Values that every dtype can hold: small integers, 0 and 1 for bool.
inline Tensor counting_tensor(DType dtype, Shape shape, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (double& value : values)
    value = static_cast<double>(random() % (dtype == DType::kBool ? 2 : 120));
  return make_tensor<double>(dtype, std::move(shape), values);
}

using Compare = std::function<void(const Tensor& got, const Tensor& want)>;

inline void expect_same(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_EQ(got.shape(), want.shape());
  const std::size_t size = size_of(got.dtype());
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const auto at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(got.as<char>() + at, want.as<char>() + at, size) == 0) continue;
    FAIL() << "element " << i << " is " << load<double>(got)[static_cast<std::size_t>(i)]
           << ", expected " << load<double>(want)[static_cast<std::size_t>(i)];
  }
}

inline std::string print_layouts(const Graph& graph,
                                 const std::map<ValueId, LayoutChoice>& layouts) {
  std::string text = print(graph);
  for (const auto& [id, choice] : layouts) {
    text += graph.value(id).name +
            (choice.layout == Layout::kModel
                 ? ": model"
                 : ": channels-last +" + std::to_string(choice.extra_pitch)) +
            "; ";
  }
  return text;
}

/// Runs the node in the layouts that the family's rule allows (all of them for up to three images,
/// else random ones), with and without gaps between pixels where the family takes them, on one and
/// on three threads.
inline void check_node(const Row& row, const OneNode& node, const Compare& compare = expect_same) {
  static const Device device = cpu_device(1);
  const Support support =
      row.family.supports(node.graph, node.graph.node(node.group.members[0].anchor), device);
  ASSERT_TRUE(support.ok) << support.reason << "\n" << print(node.graph);
  const std::vector<Tensor> want = interpret(node.graph, node.inputs);
  std::vector<ValueId> images;
  const auto add_image = [&](ValueId id) {
    if (node.graph.value(id).shape.size() >= 3) images.push_back(id);
  };
  for (const ValueId id : node.group.inputs) add_image(id);
  for (const ValueId id : node.group.outputs) add_image(id);

  const LayoutRule rule = row.family.layouts;
  const bool each = rule == LayoutRule::kEach;
  const std::size_t choices = each ? (std::size_t{1} << std::min<std::size_t>(images.size(), 3))
                              : rule == LayoutRule::kSame ? 2
                                                          : 1;
  std::mt19937 random(static_cast<unsigned>(images.size()));
  for (std::size_t choice = 0; choice < choices; ++choice) {
    std::map<ValueId, LayoutChoice> layouts;
    for (std::size_t i = 0; i < images.size(); ++i) {
      const bool last = rule == LayoutRule::kChannelsLast ||
                        (each ? (i < 3 ? (choice >> i & 1) != 0 : random() % 2 != 0) : choice == 1);
      const auto gap = row.family.pitched ? static_cast<std::int64_t>((choice + i) % 2 * 3) : 0;
      if (last) layouts[images[i]] = {Layout::kChannelsLast, gap};
    }
    const Plan plan = one_kernel_plan(node.graph, row, node.group, layouts);
    for (const std::size_t threads : {std::size_t{1}, std::size_t{3}}) {
      const std::vector<Tensor> got = run_kernel(plan, row, node.inputs, threads);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) compare(got[i], want[i]);
      if (::testing::Test::HasFailure()) {
        FAIL() << "isa " << active_isa() << ", threads " << threads << "\n"
               << print_layouts(node.graph, layouts);
      }
    }
  }
}

/// Tests that run once per instruction set: TEST_P(SuiteOnIsa, ...), then
/// BRAZE_ON_EVERY_ISA(SuiteOnIsa).
class OnIsa : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_isa(GetParam())); }
  void TearDown() override { force_isa(supported_isas().front()); }
};
#define BRAZE_ON_EVERY_ISA(suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(Isas, suite, ::testing::ValuesIn(::braze::cpu::supported_isas()), \
                           [](const auto& info) { return info.param; })

}  // namespace braze::cpu::testing
