// A run against the reference interpreter, output by output; with bisect also kernel by kernel,
// each on the reference's inputs.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "exec/logical.hpp"
#include "graph/elements.hpp"
#include "graph/interpret.hpp"
#include "passes/promote_half.hpp"
#include "state.hpp"

namespace braze {
namespace {

/// Largest rounding error of storing a number of this dtype, relative to it.
double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

/// |got - reference| <= (max_error + unit round-off) * max |reference| for floats, equality for the
/// rest. NaN and infinities must match.
Deviation compare(std::string what, const Tensor& got, const Tensor& reference, double max_error) {
  Deviation deviation{.what = std::move(what)};
  const Tensor a = cast(got, DType::kFloat64);
  const Tensor b = cast(reference, DType::kFloat64);
  double range = 0;
  for (std::int64_t i = 0; i < b.count(); ++i) {
    if (std::isfinite(b.as<double>()[i])) range = std::max(range, std::fabs(b.as<double>()[i]));
  }
  deviation.allowed =
      is_float(reference.dtype()) ? (max_error + unit_roundoff(reference.dtype())) * range : 0;
  for (std::int64_t i = 0; i < b.count(); ++i) {
    const double x = a.as<double>()[i];
    const double y = b.as<double>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double error = std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) : INFINITY;
    deviation.max_error = std::max(deviation.max_error, error);
  }
  deviation.ok = deviation.max_error <= deviation.allowed;
  return deviation;
}

/// Reference value of everything in the plan's graph, by ValueId. The plan's copies take the value
/// of what they copy.
std::vector<Tensor> reference_values(const Plan& plan, const Graph& simplified,
                                     std::span<const Tensor> inputs) {
  std::vector<Tensor> values = interpret_all(simplified, inputs);
  values.resize(static_cast<std::size_t>(plan.graph.value_count()));
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.kind != KernelKind::kRelayout) continue;
    Tensor& from = values[static_cast<std::size_t>(kernel.group.inputs[0])];
    Tensor& to = values[static_cast<std::size_t>(kernel.group.outputs[0])];
    if (!to.defined()) to = from;
    if (!from.defined()) from = to;
  }
  return values;
}

}  // namespace

bool VerifyReport::ok() const {
  const auto fine = [](const Deviation& deviation) { return deviation.ok; };
  return std::all_of(outputs.begin(), outputs.end(), fine) &&
         std::all_of(kernels.begin(), kernels.end(), fine);
}

VerifyReport verify_against_reference(const Model::State& state, std::span<const Tensor> inputs,
                                      bool bisect) {
  if (!state.reference)
    fail(ErrorCode::kUnsupported,
         "an engine file has no reference graph: verify the ONNX model that it was compiled from");
  const Plan& plan = state.program->plan();
  const auto placement = [&plan](ValueId id) -> const Placement& {
    return plan.placements[static_cast<std::size_t>(id)];
  };
  std::vector<Tensor> logical;
  std::vector<const void*> in;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueId id = plan.graph.inputs[i];
    const Value& value = plan.graph.value(id);
    logical.push_back(from_placed(inputs[i].data(), value.dtype, value.shape, placement(id)));
    in.push_back(inputs[i].data());
  }
  std::vector<std::vector<std::byte>> buffers;
  std::vector<void*> out;
  for (const GraphOutput& output : plan.graph.outputs) {
    buffers.emplace_back(static_cast<std::size_t>(placement(output.value).bytes));
    out.push_back(buffers.back().data());
  }
  state.program->run(in, out);

  Graph reference = *state.reference;
  promote_half(reference);  // the plan rounds to 16 bits at its outputs only
  const std::vector<Tensor> expected = interpret(reference, logical);
  VerifyReport report;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const GraphOutput& output = plan.graph.outputs[i];
    const Value& value = plan.graph.value(output.value);
    const Tensor got = from_placed(out[i], value.dtype, value.shape, placement(output.value));
    report.outputs.push_back(compare(output.name, got, expected[i], state.max_error));
  }
  if (!bisect) return report;
  const std::vector<Tensor> values = reference_values(plan, *state.simplified, logical);
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const KernelPlan& kernel = plan.kernels[k];
    const std::vector<Tensor> results = state.program->run_kernel(k, values);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Tensor& wanted = values[static_cast<std::size_t>(kernel.group.outputs[i])];
      const Deviation deviation = compare(kernel.name, results[i], wanted, state.max_error);
      if (i == 0 || !deviation.ok) {
        if (i == 0)
          report.kernels.push_back(deviation);
        else
          report.kernels.back() = deviation;
      }
    }
  }
  return report;
}

}  // namespace braze
