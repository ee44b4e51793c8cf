// A run against the reference, output by output; with bisect also kernel by kernel, each on the
// reference's inputs. The reference is the interpreter, or for large networks on a GPU the fp32
// kernels of the CPU.
#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.hpp"
#include "exec/logical.hpp"
#include "graph/elements.hpp"
#include "graph/interpret.hpp"
#include "machine.hpp"
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

/// Products that one element of a convolution or matrix product sums; 1 for other operators.
double sum_length(const Graph& graph, const Node& node) {
  const auto extent = [&](std::size_t input, std::size_t axis) {
    return static_cast<double>(graph.value(node.inputs[input]).shape[axis]);
  };
  switch (node.kind()) {
    case OpKind::kConv: {
      const Shape& w = graph.value(node.inputs[1]).shape;
      return static_cast<double>(element_count(w)) /
             static_cast<double>(std::max<std::int64_t>(w[0], 1));
    }
    case OpKind::kConvTranspose:
      return static_cast<double>(element_count(graph.value(node.inputs[1]).shape)) / extent(1, 1);
    case OpKind::kGemm:
      return extent(0, node.as<Gemm>()->trans_a ? 0 : 1);
    case OpKind::kMatMul:
      return static_cast<double>(graph.value(node.inputs[0]).shape.back());
    default:
      return 1;
  }
}

/// Unit round-off of the type that a plan computes in.
double compute_roundoff(const Plan& plan) {
  double largest = plan.device.tf32 ? 0x1p-11 : 0x1p-24;
  if (plan.device.kind == DeviceKind::kCpu) return largest;
  for (const KernelPlan& kernel : plan.kernels) {
    for (const Group::Member& member : kernel.group.members) {
      const DType dtype = plan.graph.value(plan.graph.node(member.anchor).output()).dtype;
      if (is_float(dtype)) largest = std::max(largest, unit_roundoff(dtype));
    }
  }
  return largest;
}

/// What a kernel's result may be off by on top, as a fraction of its range: the reference rounds
/// after each node where the kernel rounds once, and tf32 rounds both factors of each product.
double kernel_rounding(const Plan& plan, const KernelPlan& kernel) {
  if (plan.device.kind == DeviceKind::kCpu) return 0;
  double rounding = plan.device.tf32 ? 2 * 0x1p-11 : 0;
  for (const Group::Member& member : kernel.group.members) {
    const DType dtype = plan.graph.value(plan.graph.node(member.anchor).output()).dtype;
    rounding += unit_roundoff(dtype) * static_cast<double>(1 + member.epilogue.steps.size());
  }
  return rounding;
}

/// The graph's outputs, by one reference or the other.
std::vector<Tensor> evaluate(const Graph& graph, std::span<const Tensor> inputs, Reference with) {
  if (with == Reference::kInterpreter) return interpret(graph, inputs);
  const Options options;
  const Model model = compile_for(select_machine(options), graph, options);
  Result<std::vector<Tensor>> outputs = model.run(inputs);
  if (!outputs.ok()) fail(outputs.error().code, "{}", outputs.error().message);
  return std::move(outputs).value();
}

/// Numbers 1 + error * [-1, 1).
Tensor noise(const Shape& shape, double error, std::mt19937& generator) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Tensor tensor = Tensor::make(DType::kFloat32, shape);
  for (std::int64_t e = 0; e < tensor.count(); ++e)
    tensor.as<float>()[e] = 1 + static_cast<float>(error) * uniform(generator);
  return tensor;
}

/// The graph's outputs when every float a node makes is off by up to the rounding error of
/// computing it: a relative `roundoff`, times 2 sqrt(K) for a sum of K products; the images of a
/// batch all alike. How far they are from the reference is how well the network is conditioned.
std::vector<Tensor> evaluate_with_rounding(Graph graph, std::span<const Tensor> inputs,
                                           double roundoff, Reference with) {
  std::mt19937 generator(0);
  std::vector<Tensor> disturbed(inputs.begin(), inputs.end());
  for (Tensor& input : disturbed) {
    if (input.dtype() != DType::kFloat32 || roundoff <= unit_roundoff(input.dtype())) continue;
    const Tensor factors = noise(input.shape(), roundoff, generator);  // the plan rounds its inputs
    input = input.clone();
    for (std::int64_t e = 0; e < input.count(); ++e) input.as<float>()[e] *= factors.as<float>()[e];
  }
  for (const NodeId id : graph.order()) {
    const double length = sum_length(graph, graph.node(id));
    const double error = roundoff * (length > 1 ? 2 * std::sqrt(length) : 1);
    const std::vector<ValueId> outputs = graph.node(id).outputs;
    for (const ValueId exact : outputs) {
      if (exact == kNoValue || graph.value(exact).dtype != DType::kFloat32) continue;
      const Shape shape = graph.value(exact).shape;
      Shape of_image = shape;
      if (shape.size() > 1) of_image[0] = std::min<std::int64_t>(shape[0], 1);
      const std::string name = fmt::format("{}/rounded", graph.value(exact).name);
      const ValueId rounded = graph.add_value(name, DType::kFloat32, shape);
      graph.value(rounded).known_rank = true;
      graph.replace_uses(exact, rounded);
      const ValueId factors =
          graph.add_constant(name + "/factors", noise(of_image, error, generator));
      graph.add_node(Binary{BinaryFn::kMul}, {exact, factors}, {rounded}, name, {});
    }
  }
  return evaluate(graph, disturbed, with);
}

/// Where an output is off, asks how far rounding alone moves the reference: four times that is
/// allowed too.
void allow_for_conditioning(VerifyReport& report, const Graph& reference,
                            std::span<const Tensor> inputs, std::span<const Tensor> expected,
                            double roundoff, Reference with) {
  const auto fine = [](const Deviation& deviation) { return deviation.ok; };
  if (std::all_of(report.outputs.begin(), report.outputs.end(), fine)) return;
  const std::vector<Tensor> moved =
      evaluate_with_rounding(reference.compacted(), inputs, roundoff, with);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    Deviation& deviation = report.outputs[i];
    if (deviation.ok || !is_float(expected[i].dtype())) continue;
    const double spread = compare(deviation.what, moved[i], expected[i], 0).max_error;
    if (!std::isfinite(spread) || 4 * spread <= deviation.allowed) continue;
    deviation.allowed = 4 * spread;
    deviation.ok = deviation.max_error <= deviation.allowed;
  }
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

namespace {

/// Operations beyond which the interpreter takes minutes (it does 1 to 3 GFLOP/s). VGG-16 has 31e9
/// at batch 1, ResNet-50 8e9.
constexpr double kMostInterpreted = 4e10;

Reference choose_reference(const Plan& plan, bool bisect, Reference wanted) {
  if (wanted == Reference::kCpu && plan.device.kind == DeviceKind::kCpu)
    fail(ErrorCode::kUsage, "the CPU's kernels cannot be the reference for themselves");
  if (wanted == Reference::kCpu && bisect)
    fail(ErrorCode::kUsage, "to bisect takes the interpreter as reference");
  if (wanted != Reference::kAuto) return wanted;
  double flops = 0;
  for (const KernelPlan& kernel : plan.kernels) flops += kernel.work.flops;
  return plan.device.kind == DeviceKind::kCpu || bisect || flops <= kMostInterpreted
             ? Reference::kInterpreter
             : Reference::kCpu;
}

}  // namespace

VerifyReport verify_against_reference(const Model::State& state, std::span<const Tensor> inputs,
                                      bool bisect, Reference with) {
  if (!state.reference)
    fail(ErrorCode::kUnsupported,
         "an engine file has no reference graph: verify the ONNX model that it was compiled from");
  const Plan& plan = state.program->plan();
  with = choose_reference(plan, bisect, with);
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
  promote_half(reference);                // the plan rounds to 16 bits at its outputs only
  std::vector<Tensor> as_read = logical;  // --io-dtype compute may have made the inputs narrower
  for (std::size_t i = 0; i < as_read.size(); ++i)
    as_read[i] = cast(as_read[i], reference.value(reference.inputs[i]).dtype);
  const std::vector<Tensor> expected = evaluate(reference, as_read, with);
  VerifyReport report;
  report.reference = with;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const GraphOutput& output = plan.graph.outputs[i];
    const Value& value = plan.graph.value(output.value);
    const Tensor got = from_placed(out[i], value.dtype, value.shape, placement(output.value));
    report.outputs.push_back(compare(output.name, got, expected[i], state.max_error));
  }
  allow_for_conditioning(report, reference, as_read, expected, compute_roundoff(plan), with);
  if (!bisect) return report;
  // Each kernel on the reference's inputs, in the types it computes in.
  const std::vector<Tensor> values = reference_values(plan, *state.simplified, logical);
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const KernelPlan& kernel = plan.kernels[k];
    const std::vector<Tensor> results = state.program->run_kernel(k, values);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Tensor& wanted = values[static_cast<std::size_t>(kernel.group.outputs[i])];
      const Deviation deviation =
          compare(kernel.name, results[i], wanted, state.max_error + kernel_rounding(plan, kernel));
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
