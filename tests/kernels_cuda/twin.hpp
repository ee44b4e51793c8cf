// A group in the compute type and its twin in fp32, and a family's kernel run through the emulator
// against the interpreter of the twin.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "graph/elements.hpp"
#include "graph/shape.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels/harness.hpp"
#include "support/simt/emulated_gpu.hpp"

namespace braze::cuda::testing {

using cpu::testing::LayoutChoice;
using cpu::testing::Placed;

/// Operands are multiples of 1/16 below 4 in magnitude: exact in every float type, their products
/// too; so a kernel may differ from the twin by the order of fp32 sums and one rounding at the end.
class Twin {
 public:
  explicit Twin(DType compute, unsigned seed = 1) : compute_(compute), random_(seed) {}

  Graph graph, reference;
  Group group;
  std::vector<Tensor> inputs, reference_inputs;
  std::map<ValueId, LayoutChoice> layouts;
  double magnitude = 16;  // of the sums: allows 2^-20 of it

  /// Small numbers on a grid.
  Tensor values(const Shape& shape) {
    std::vector<float> list(static_cast<std::size_t>(element_count(shape)));
    for (float& x : list) x = static_cast<float>(static_cast<int>(random_() % 65) - 32) / 16.0f;
    return make_tensor<float>(DType::kFloat32, shape, list);
  }
  ValueId constant(const Tensor& tensor) {
    reference.add_constant(name(), tensor);
    return graph.add_constant(name(), cast(tensor, compute_));
  }
  /// A run-time input of the group, which the members read in the compute type.
  ValueId input(const Tensor& tensor, DType stored, LayoutChoice layout = {}) {
    const ValueId id = graph.add_value(name(), stored, tensor.shape());
    reference.add_value(name(), DType::kFloat32, tensor.shape());
    graph.value(id).known_rank = reference.value(id).known_rank = true;
    graph.inputs.push_back(id);
    reference.inputs.push_back(id);
    inputs.push_back(cast(tensor, stored));
    reference_inputs.push_back(tensor);
    if (tensor.shape().size() >= 3) layouts[id] = layout;
    group.inputs.push_back(id);
    if (stored == compute_) return id;
    const ValueId read = node(Cast{compute_}, {id}, Cast{DType::kFloat32});
    group.casts.push_back(graph.producer(read));
    return read;
  }
  ValueId input(const Tensor& tensor) { return input(tensor, compute_); }

  void anchor(Attributes op, const std::vector<ValueId>& ids) {
    Group::Member member;
    member.result = node(op, ids, op);
    member.anchor = graph.producer(member.result);
    group.members.push_back(member);
    finish();
  }
  [[nodiscard]] const Shape& shape() const { return graph.value(result()).shape; }
  [[nodiscard]] ValueId result() const { return group.members.back().result; }

  void then(const Unary& op) {
    EpilogueStep step;
    step.unary = op;
    append(step, op, {result()});
  }
  void then(BinaryFn fn, ValueId operand, bool swapped = false) {
    EpilogueStep step;
    step.binary = fn;
    step.operand = operand;
    step.swapped = swapped;
    std::string why;
    const auto broadcast = classify_broadcast(graph.value(operand).shape, shape(), &why);
    ASSERT_TRUE(broadcast.has_value()) << why;
    step.broadcast = *broadcast;
    append(step, Binary{fn},
           swapped ? std::vector{operand, result()} : std::vector{result(), operand});
  }
  void store_as(DType dtype, LayoutChoice layout = {}) {
    if (dtype != compute_) {
      EpilogueStep step;
      step.cast = dtype;
      const ValueId out = node(Cast{dtype}, {result()}, Cast{DType::kFloat32});
      step.node = graph.producer(out);
      group.members[0].epilogue.steps.push_back(step);
      group.members[0].result = out;
      finish();
    }
    if (shape().size() >= 3) layouts[result()] = layout;
  }

  /// The plan of the one kernel; pitches as in `layouts`.
  Plan plan(const Row& row, const Device& device, const Candidate& candidate) const {
    KernelFamily family = row.family;
    family.candidates = nullptr;
    Plan plan = cpu::testing::one_kernel_plan(graph, {family, nullptr}, group, layouts);
    plan.device = device;
    plan.kernels[0].candidate = candidate;
    return plan;
  }

  /// The kernels of all candidates.
  std::vector<Kernel> kernels(const Row& row, const Device& device) const {
    std::vector<Kernel> list;
    for (const Candidate& candidate : row.family.candidates(graph, group, device)) {
      const Plan planned = plan(row, device, candidate);
      list.push_back(row.build(planned, planned.kernels[0]));
    }
    return list;
  }

  /// Runs every candidate of the family (or only `only`) on the emulated device.
  void check(const Row& row, Device device, int only = -1) const {
    const Node& node = graph.node(group.members[0].anchor);
    const Support support = row.family.supports(graph, node, device);
    ASSERT_TRUE(support.ok) << support.reason << "\n" << print(graph);
    const Tensor want = interpret(reference, reference_inputs).at(0);
    std::vector<Candidate> candidates{Candidate{}};
    if (row.family.candidates != nullptr) candidates = row.family.candidates(graph, group, device);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (only >= 0 && i != static_cast<std::size_t>(only) % candidates.size()) continue;
      const Work work = row.family.work(graph, group, candidates[i], device);
      EXPECT_TRUE(work.efficiency > 0 && work.efficiency <= 1) << work.efficiency;
      const Plan planned = plan(row, device, candidates[i]);
      run(planned, row, want);
      if (::testing::Test::HasFailure()) {
        std::string text;
        for (const auto& parameter : candidates[i].parameters)
          text += parameter.name + " " + std::to_string(parameter.value) + " ";
        FAIL() << text << "\n" << print(graph) << layouts_text();
      }
    }
  }

 private:
  std::string name() { return "v" + std::to_string(graph.value_count()); }
  ValueId node(const Attributes& op, const std::vector<ValueId>& ids, const Attributes& twin) {
    const std::string id = name();
    const ValueId out = graph.add_value(id);
    reference.add_value(id);
    set_types(graph, graph.add_node(op, ids, {out}, id, {id}));
    set_types(reference, reference.add_node(twin, ids, {out}, id, {id}));
    return out;
  }
  void append(EpilogueStep step, const Attributes& op, const std::vector<ValueId>& ids) {
    const ValueId out = node(op, ids, op);
    step.node = graph.producer(out);
    group.members[0].epilogue.steps.push_back(step);
    group.members[0].result = out;
    finish();
  }
  void finish() {
    group.outputs = {result()};
    graph.outputs = reference.outputs = {{"y", result()}};
  }
  [[nodiscard]] std::string layouts_text() const {
    std::string text;
    for (const auto& [id, choice] : layouts) {
      text += graph.value(id).name + (choice.layout == Layout::kModel
                                          ? ": model; "
                                          : ": last +" + std::to_string(choice.extra_pitch) + "; ");
    }
    return text;
  }

  void run(const Plan& planned, const Row& row, const Tensor& want) const {
    const Kernel kernel = row.build(planned, planned.kernels[0]);
    const auto place = [&](ValueId id) {
      const auto found = layouts.find(id);
      const Value& value = graph.value(id);
      return Placed(value.dtype, value.shape,
                    found == layouts.end() ? LayoutChoice{} : found->second);
    };
    std::vector<std::vector<std::byte>> in;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Placed placed = place(group.inputs[i]);
      placed.set(inputs[i]);
      const auto* data = static_cast<const std::byte*>(placed.data());
      in.emplace_back(data, data + placed.placement().bytes);
    }
    Placed out = place(result());
    const std::size_t bytes = static_cast<std::size_t>(out.placement().bytes);
    const auto got = test::run_kernel(kernel, in, std::vector{bytes}, planned.device.sm);
    ASSERT_EQ(got.size(), 1U);
    ASSERT_EQ(got[0].size(), 1U);
    std::memcpy(out.data(), got[0][0].data(), bytes);
    EXPECT_TRUE(out.gaps_intact()) << "the kernel wrote between the pixels of its output";
    compare(out.get(), want);
  }

  /// One rounding to the stored type, fp32 sums in another order.
  void compare(const Tensor& got, const Tensor& want) const {
    const DType dtype = got.dtype();
    const double unit = dtype == DType::kFloat32   ? 0x1p-22
                        : dtype == DType::kFloat16 ? 0x1.02p-11
                                                   : 0x1.02p-8;
    const auto g = load<double>(got), w = load<double>(want);
    ASSERT_EQ(g.size(), w.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      const bool same = std::isnan(w[i])
                            ? std::isnan(g[i])
                            : g[i] == w[i] || std::fabs(g[i] - w[i]) <=
                                                  unit * std::fabs(w[i]) + 0x1p-20 * magnitude;
      if (!same) FAIL() << "element " << i << " is " << g[i] << ", expected " << w[i];
    }
  }

  DType compute_;
  std::mt19937 random_;
};

}  // namespace braze::cuda::testing
