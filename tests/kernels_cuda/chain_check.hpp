// Chains of convolutions as one kernel on the emulated GPU, against the interpreter.
#pragma once

#include <map>

#include "kernels_cuda/chain_group.hpp"
#include "kernels_cuda/one_kernel.hpp"
#include "plan/stages.hpp"

namespace braze::cuda::testing {

/// A network of numbers that every float type holds exactly, sums too: then each difference from
/// the interpreter is an error. Weights are few small integers at random places.
class ExactNet : public test::Net {
 public:
  using Net::Net;

  ValueId exact(Shape shape, std::int64_t most) {
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    for (double& value : values) value = static_cast<double>(pick(-most, most));
    return constant(std::move(shape), values);
  }
  /// Each output sums up `terms` of its inputs.
  ValueId conv(const std::string& id, ValueId x, std::int64_t outputs, const Window& window,
               std::int64_t group = 1, bool bias = true, int terms = 3) {
    const Shape shape = {outputs, this->shape(x)[1] / group, window.kernel[0], window.kernel[1]};
    const std::int64_t depth = element_count(shape) / outputs;
    std::vector<ValueId> inputs = {x, constant(shape, weights(outputs, depth, depth, 1, terms))};
    if (bias) inputs.push_back(exact({outputs}, 2));
    return op(id, Conv{window, group}, std::move(inputs));
  }
  /// x [M, K] times a matrix, with a bias.
  ValueId gemm(const std::string& id, ValueId x, std::int64_t outputs, bool trans_b = true,
               int terms = 3) {
    const std::int64_t depth = shape(x)[1];
    const ValueId w = trans_b
                          ? constant({outputs, depth}, weights(outputs, depth, depth, 1, terms))
                          : constant({depth, outputs}, weights(outputs, depth, 1, outputs, terms));
    return op(id, Gemm{.trans_b = trans_b}, {x, w, exact({outputs}, 2)});
  }
  /// The same without a bias.
  ValueId matmul(const std::string& id, ValueId x, std::int64_t outputs, int terms = 3) {
    const std::int64_t depth = shape(x)[1];
    return op(id, MatMul{},
              {x, constant({depth, outputs}, weights(outputs, depth, 1, outputs, terms))});
  }
  ValueId image(const std::string& id, Shape shape) {
    return unary(id, UnaryFn::kNeg, input(id + "_in", std::move(shape)));
  }
  std::vector<Tensor> exact_inputs() {
    std::vector<Tensor> tensors;
    for (const ValueId input : graph.inputs) {
      std::vector<double> values(static_cast<std::size_t>(element_count(shape(input))));
      for (double& value : values) value = static_cast<double>(pick(-4, 4));
      tensors.push_back(make_tensor(graph.value(input).dtype, shape(input), values));
    }
    return tensors;
  }

 private:
  /// Of each output, `terms` among `depth` are 1 or -1; strides are those of outputs and depth.
  std::vector<double> weights(std::int64_t outputs, std::int64_t depth, std::int64_t output_stride,
                              std::int64_t depth_stride, int terms) {
    std::vector<double> weights(static_cast<std::size_t>(outputs * depth));
    for (std::int64_t k = 0; k < outputs; ++k) {
      for (int i = 0; i < terms; ++i)
        weights[static_cast<std::size_t>(k * output_stride + pick(0, depth - 1) * depth_stride)] =
            pick(0, 1) == 0 ? -1.0 : 1.0;
    }
    return weights;
  }
};

struct ChainCase {
  DType dtype = DType::kFloat16;
  int sm = 80;
  std::size_t most = 3;  // candidates that are run
  unsigned seed = 1;
  bool tf32 = false;
  int units = 0;  // multiprocessors, if not as many as the device has
};

inline Row chain_row(const ChainCase& of) {
  const bool tensor = of.sm >= 80 && (of.dtype != DType::kFloat32 || of.tf32);
  return tensor ? chain_sm80() : chain_portable();
}

/// The layouts that a plan gives a group whose family takes only one.
inline void set_layouts(Plan& plan, const Group& group, const KernelFamily& family) {
  if (family.layouts != LayoutRule::kChannelsLast) return;
  for (const std::vector<ValueId>* ids : {&group.inputs, &group.outputs}) {
    for (const ValueId id : *ids) {
      const Value& value = plan.graph.value(id);
      if (!is_image(value)) continue;
      Placement& placement = plan.placements[static_cast<std::size_t>(id)];
      placement.layout = Layout::kChannelsLast;
      placement.pitch = value.shape[1];
      placement.bytes = extent_bytes(value, placement.layout, placement.pitch);
    }
  }
}

/// Runs what lies between the nodes `first` and `last` as one kernel of a family, with some of its
/// candidates.
inline void check_group(ExactNet& net, const std::string& first, const std::string& last,
                        const ChainCase& of, const Row& row, const Compare& compare = nullptr) {
  const std::vector<Tensor> inputs = net.exact_inputs();
  const std::vector<Tensor> all = interpret_all(net.graph, inputs);
  std::map<std::string, Tensor> wanted;
  for (ValueId id = 0; id < net.graph.value_count(); ++id)
    wanted[net.graph.value(id).name] = all[static_cast<std::size_t>(id)];
  Plan plan = plan_of_parts(net.graph, of.dtype, of.sm);
  plan.device.tf32 = of.tf32;
  if (of.units > 0) plan.device.units = of.units;
  const Group group = chain_group(plan, first, last);
  set_layouts(plan, group, row.family);
  const Support support = row.family.joins(plan.graph, group, plan.device);
  ASSERT_TRUE(support.ok) << support.rule << ": " << support.reason << "\n" << print(plan);
  std::vector<Candidate> candidates = row.family.candidates(plan.graph, group, plan.device);
  std::mt19937 random(of.seed);
  std::shuffle(candidates.begin(), candidates.end(), random);
  candidates.resize(std::min(candidates.size(), of.most));
  for (const Candidate& candidate : candidates) {
    const Work work = row.family.work(plan.graph, group, candidate, plan.device);
    EXPECT_TRUE(work.efficiency > 0 && work.efficiency <= 1) << work.efficiency;
    Plan one = plan;
    one.kernels.resize(1);
    one.kernels[0].group = group;
    one.kernels[0].candidate = candidate;
    one.kernels[0].family = row.family.name;
    std::vector<Tensor> in;
    for (const ValueId id : group.inputs) {
      const Value& value = plan.graph.value(id);
      in.push_back(cast(wanted.at(value.name), value.dtype));
    }
    const std::vector<Tensor> got = run_on_gpu(one, row, in);
    ASSERT_EQ(got.size(), group.outputs.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Tensor& want = wanted.at(plan.graph.value(group.outputs[i]).name);
      if (compare != nullptr) {
        compare(cast(got[i], DType::kFloat32), want);
      } else {
        expect_same(cast(got[i], DType::kFloat32), want);
      }
    }
    if (::testing::Test::HasFailure()) {
      std::string text;
      for (const auto& parameter : candidate.parameters)
        text += parameter.name + " " + std::to_string(parameter.value) + " ";
      FAIL() << text << "seed " << of.seed << "\n" << print(plan);
    }
  }
}

/// The same with the family of chains that is for the case.
inline void check_chain(ExactNet& net, const std::string& first, const std::string& last,
                        const ChainCase& of, const Compare& compare = nullptr) {
  check_group(net, first, last, of, chain_row(of), compare);
}

}  // namespace braze::cuda::testing
