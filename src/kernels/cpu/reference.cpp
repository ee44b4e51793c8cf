// The family of last resort: any resolved node in model layout, through the interpreter. It
// allocates while it runs, throws what the interpreter throws, and uses one thread.
#include <cstring>

#include "base/error.hpp"
#include "graph/interpret.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(const Plan& plan, const KernelPlan& kernel) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    ensure(kernel.group.members.front().epilogue.empty(), "a reference kernel has no epilogue");
    // A graph of this node alone, so that the kernel does not depend on the plan's lifetime.
    std::vector<ValueId> inputs, outputs;
    for (const ValueId id : node.inputs) {
      operands_.push_back(operand_of(plan, kernel.group, id));
      inputs.push_back(copy_value(plan.graph, id));
    }
    for (const ValueId id : node.outputs) {
      stored_.push_back(output_index(kernel.group, id));
      outputs.push_back(copy_value(plan.graph, id));
    }
    node_ = graph_.add_node(node.op, inputs, outputs, node.id, node.origins);
  }

  void run(const KernelArguments& arguments) const override {
    const Node& node = graph_.node(node_);
    std::vector<Tensor> inputs(operands_.size());
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (!operands_[i].present()) continue;
      const Value& value = graph_.value(node.inputs[i]);
      inputs[i] = operands_[i].input < 0 ? operands_[i].constant
                                         : Tensor::share(value.dtype, value.shape, nullptr,
                                                         operands_[i].data(arguments));
    }
    const std::vector<Tensor> results = interpret_node(graph_, node, inputs);
    for (std::size_t i = 0; i < stored_.size(); ++i) {
      if (stored_[i] < 0) continue;
      void* to = arguments.outputs[static_cast<std::size_t>(stored_[i])];
      if (results[i].bytes() > 0) std::memcpy(to, results[i].data(), results[i].bytes());
    }
  }

 private:
  ValueId copy_value(const Graph& graph, ValueId id) {
    if (id == kNoValue) return kNoValue;
    const Value& value = graph.value(id);
    const ValueId copy = graph_.add_value(value.name, value.dtype, value.shape);
    graph_.value(copy).known_rank = true;
    graph_.value(copy).constant = value.constant;
    return copy;
  }

  Graph graph_;
  NodeId node_ = kNoNode;
  std::vector<Operand> operands_;  // by input of the node
  std::vector<int> stored_;        // by output of the node: index in arguments.outputs, or -1
};

Support supports(const Graph&, const Node&, const Device&) { return Support::yes(); }

/// Multiply-adds per output element of the operators that sum over something else than their
/// output.
double terms_per_output(const Graph& graph, const Node& node) {
  const auto extent = [&](std::size_t input, std::size_t axis) {
    return static_cast<double>(graph.value(node.inputs[input]).shape[axis]);
  };
  const auto filter = [&](std::size_t input) {
    const Shape& shape = graph.value(node.inputs[input]).shape;
    return static_cast<double>(element_count(shape)) / static_cast<double>(shape[0]);
  };
  switch (node.kind()) {
    case OpKind::kConv:
      return filter(1);
    case OpKind::kConvTranspose:
      return filter(1);
    case OpKind::kQLinearConv:
      return filter(3);
    case OpKind::kMatMul:
      return extent(0, graph.value(node.inputs[0]).shape.size() - 1);
    case OpKind::kGemm:
      return extent(0, node.as<Gemm>()->trans_a ? 0 : 1);
    case OpKind::kPool:
      return static_cast<double>(element_count(node.as<Pool>()->window.kernel));
    default:
      return 1;
  }
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = anchor_of(graph, group);
  double elements = 0;
  for (const ValueId id : node.inputs) {
    if (id != kNoValue) elements += static_cast<double>(element_count(graph.value(id).shape));
  }
  double results = 0;
  for (const ValueId id : node.outputs) {
    if (id != kNoValue) results += static_cast<double>(element_count(graph.value(id).shape));
  }
  // About 10 ns for each element read, written or accumulated, on one thread.
  return streaming_work(graph, group, elements + 2 * results * terms_per_output(graph, node),
                        0.002);
}

}  // namespace

Row reference() {
  KernelFamily family;
  family.name = "reference";
  family.backend = "cpu";
  family.layouts = LayoutRule::kModelOnly;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, [](const Plan& plan, const KernelPlan& kernel) -> std::unique_ptr<Kernel> {
            return std::make_unique<ReferenceKernel>(plan, kernel);
          }};
}

}  // namespace braze::cpu
