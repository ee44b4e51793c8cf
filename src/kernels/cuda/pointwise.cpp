// Unary, Binary, Where, Cast, Identity, BatchNorm, Quantize and Dequantize, with any epilogue: one
// emitted expression of operands that each have strides of their own along the result.
//
// Floats of 16 and 32 bits are computed in fp32, other types in double, 64-bit integers or bool.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/copy_emitter.hpp"
#include "kernels/cuda/device/pointwise_parameters.h"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels/strides.hpp"
#include "plan/stages.hpp"

namespace braze::cuda {
namespace {

using device::kPointwiseAxes;
using device::kPointwiseOperands;
using device::kPointwiseValues;

bool is_small_float(DType dtype) { return is_float(dtype) && dtype != DType::kFloat64; }

/// The type that elements are computed in.
const char* compute_type(DType dtype) {
  if (is_small_float(dtype)) return "float";
  if (dtype == DType::kFloat64) return "double";
  if (dtype == DType::kBool) return "bool";
  return dtype == DType::kUInt64 ? "u64" : "i64";
}

/// The struct of arithmetic.cuh with a dtype's functions.
const char* arithmetic_of(DType dtype) {
  if (dtype == DType::kFloat64) return "Double::";
  return dtype == DType::kUInt64 ? "Integer<u64>::" : "Integer<i64>::";
}

bool takes(UnaryFn fn, DType dtype) {
  switch (fn) {
    case UnaryFn::kNot:
      return dtype == DType::kBool;
    case UnaryFn::kIsNaN:
      return is_float(dtype);
    case UnaryFn::kRelu:
    case UnaryFn::kClip:
    case UnaryFn::kAbs:
    case UnaryFn::kNeg:
    case UnaryFn::kSign:
      return dtype != DType::kBool;
    default:
      return is_small_float(dtype);
  }
}

bool takes(BinaryFn fn, DType dtype) {
  if (dtype == DType::kBool) return fn == BinaryFn::kEqual || fn >= BinaryFn::kAnd;
  return fn < BinaryFn::kAnd;
}

Support supports(const Graph& graph, const Node& node, const Device&) {
  const OpKind kind = node.kind();
  if (kind != OpKind::kUnary && kind != OpKind::kBinary && kind != OpKind::kWhere &&
      kind != OpKind::kCast && kind != OpKind::kIdentity && kind != OpKind::kBatchNorm &&
      kind != OpKind::kQuantize && kind != OpKind::kDequantize) {
    return Support::no("op", "not an element-by-element function");
  }
  const DType from = graph.value(node.inputs[0]).dtype;
  if (graph.value(node.outputs[0]).shape.size() > kPointwiseAxes)
    return Support::no("rank", "more than 8 axes");
  if (const auto* op = node.as<Unary>(); op != nullptr && !takes(op->fn, from))
    return Support::no("dtype", fmt::format("{} of {}", to_string(op->fn), to_string(from)));
  if (const auto* op = node.as<Binary>(); op != nullptr && !takes(op->fn, from))
    return Support::no("dtype", fmt::format("{} of {}", to_string(op->fn), to_string(from)));
  if (kind == OpKind::kBatchNorm) {
    for (const ValueId id : node.inputs) {
      if (!is_small_float(graph.value(id).dtype))
        return Support::no("dtype", "batch normalisation of tensors that are not float");
    }
  }
  if (kind == OpKind::kQuantize || kind == OpKind::kDequantize) {
    const DType floats = kind == OpKind::kQuantize ? from : graph.value(node.outputs[0]).dtype;
    if (!is_small_float(floats) || !is_small_float(graph.value(node.inputs[1]).dtype))
      return Support::no("dtype", "quantisation of what is not float");
  }
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const auto elements = static_cast<double>(element_count(graph.value(group.outputs[0]).shape));
  const double steps = 1 + static_cast<double>(group.members.front().epilogue.steps.size());
  return cpu::streaming_work(graph, group, elements * steps * 8, 0.5);
}

std::string comparison(BinaryFn fn) {
  switch (fn) {
    case BinaryFn::kEqual:
      return "==";
    case BinaryFn::kLess:
      return "<";
    case BinaryFn::kLessOrEqual:
      return "<=";
    case BinaryFn::kGreater:
      return ">";
    case BinaryFn::kGreaterOrEqual:
      return ">=";
    case BinaryFn::kAnd:
      return "&&";
    case BinaryFn::kOr:
      return "||";
    case BinaryFn::kXor:
      return "!=";
    default:
      return {};
  }
}

/// A bound of Clip as an integer of type C.
template <class C>
std::int64_t integer_bound(double bound) {
  constexpr auto kLow = std::numeric_limits<C>::min(), kHigh = std::numeric_limits<C>::max();
  const C value = bound <= static_cast<double>(kLow)    ? kLow
                  : bound >= static_cast<double>(kHigh) ? kHigh
                                                        : static_cast<C>(bound);
  return static_cast<std::int64_t>(value);
}

class Emitter {
 public:
  Emitter(const Plan& plan, const KernelPlan& kernel)
      : plan_(plan),
        group_(kernel.group),
        member_(kernel.group.members.front()),
        node_(plan.graph.node(member_.anchor)),
        shape_(plan.graph.value(member_.result).shape),
        result_(plan.graph.value(member_.result).dtype) {}

  Kernel build() {
    // The anchor, the steps: operands and lines.
    if (node_.as<BatchNorm>() != nullptr) {
      add_batch_norm();
    } else if (node_.as<Quantize>() != nullptr || node_.as<Dequantize>() != nullptr) {
      add_quantisation();
    } else {
      for (const ValueId id : node_.inputs) add_operand(id, broadcast_to(id));
      add_anchor();
    }
    for (const EpilogueStep& step : member_.epilogue.steps) add_step(step);
    lay_out();
    return finish();
  }

 private:
  struct Operand {
    Address address;
    ValueId value = kNoValue;  // what lies there; none: a packed fp32 constant
    DType dtype = DType::kFloat32;
    Ints strides;  // along the result's axes
    const char* compute = "float";
    bool together = false;  // V elements are loaded at once
  };

  Ints broadcast_to(ValueId id) const {
    return broadcast_strides(plan_, loaded_value(plan_, group_, id), shape_);
  }

  /// Adds an operand, which is read as the type its value is computed in; returns its name.
  std::string add_operand(ValueId id, Ints strides) {
    ensure(operands_.size() < kPointwiseOperands, "a chain's operands fit its parameters");
    Operand operand;
    operand.value = loaded_value(plan_, group_, id);
    operand.address = address_of(plan_, group_, id, kernel_);
    operand.dtype = plan_.graph.value(operand.value).dtype;
    operand.strides = std::move(strides);
    operand.compute = compute_type(plan_.graph.value(id).dtype);
    operands_.push_back(std::move(operand));
    return fmt::format("x{}", operands_.size() - 1);
  }
  std::string add_floats_operand(const Tensor& values, Ints strides) {
    ensure(operands_.size() < kPointwiseOperands, "a chain's operands fit its parameters");
    Operand operand;
    operand.address = add_floats(kernel_, values, 32);
    operand.strides = std::move(strides);
    operands_.push_back(std::move(operand));
    return fmt::format("x{}", operands_.size() - 1);
  }

  std::string add_value(double value) {
    ensure(values_ < kPointwiseValues, "a chain's bounds and slopes fit its parameters");
    parameters_.value[values_] = static_cast<float>(value);
    return fmt::format("p.value[{}]", values_++);
  }

  void add_line(const std::string& expression) {
    lines_ += fmt::format("    BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = {};\n", expression);
  }

  void add_anchor() {
    const DType from = plan_.graph.value(node_.inputs[0]).dtype;
    const DType to = plan_.graph.value(node_.outputs[0]).dtype;
    value_type_ = compute_type(to);
    if (const auto* unary = node_.as<Unary>()) add_line(unary_call(*unary, from));
    if (const auto* binary = node_.as<Binary>()) {
      const std::string sign = comparison(binary->fn);
      if (!sign.empty()) {
        add_line(fmt::format("x0[i] {} x1[i]", sign));
      } else if (is_small_float(from)) {
        add_line(call_of(binary->fn, "x0[i]", "x1[i]"));
      } else {
        add_line(arithmetic_of(from) + call_of(binary->fn, "x0[i]", "x1[i]"));
      }
    }
    if (node_.as<Where>() != nullptr) add_line("x0[i] ? x1[i] : x2[i]");
    if (node_.as<Cast>() != nullptr || node_.as<Identity>() != nullptr) {
      // From what is stored, in one rounding.
      operands_[0].compute = element_type(operands_[0].dtype);
      add_line(fmt::format("convert<{}>(convert<{}>(convert<{}>(x0[i])))", value_type_,
                           element_type(to), element_type(from)));
    }
  }

  std::string unary_call(const Unary& op, DType dtype) {
    if (op.fn == UnaryFn::kNot) return "!x0[i]";
    if (op.fn == UnaryFn::kIsNaN) return "x0[i] != x0[i]";
    if (is_small_float(dtype))
      return call_of(op, "x0[i]", [this](double value) { return add_value(value); });
    const std::string base = arithmetic_of(dtype);
    switch (op.fn) {
      case UnaryFn::kRelu:
        return base + "relu(x0[i])";
      case UnaryFn::kAbs:
        return base + "fabsf(x0[i])";
      case UnaryFn::kNeg:
        return base + "neg(x0[i])";
      case UnaryFn::kSign:
        return base + "sign(x0[i])";
      default:
        break;
    }
    if (dtype == DType::kFloat64) {
      parameters_.wide_value[0] = op.alpha;
      parameters_.wide_value[1] = op.beta;
      return base + "clip(x0[i], p.wide_value[0], p.wide_value[1])";
    }
    const bool is_unsigned = dtype == DType::kUInt64;
    const auto bound = [&](double value) {
      return is_unsigned ? integer_bound<std::uint64_t>(value) : integer_bound<std::int64_t>(value);
    };
    parameters_.integer_value[0] = bound(op.alpha);
    parameters_.integer_value[1] = bound(op.beta);
    const char* type = is_unsigned ? "u64" : "i64";
    return fmt::format(
        "{0}clip(x0[i], static_cast<{1}>(p.integer_value[0]), "
        "static_cast<{1}>(p.integer_value[1]))",
        base, type);
  }

  /// y = x * s[c] + t[c] where the parameters are constant; else as it is defined.
  void add_batch_norm() {
    const double epsilon = node_.as<BatchNorm>()->epsilon;
    Ints channel(shape_.size(), 0);
    channel[1] = 1;
    add_operand(node_.inputs[0], broadcast_to(node_.inputs[0]));
    const auto value = [&](std::size_t i) -> const Value& {
      return plan_.graph.value(node_.inputs[i]);
    };
    bool constant = true;
    for (std::size_t i = 1; i < 5; ++i) constant = constant && value(i).is_constant();
    if (!constant) {
      for (std::size_t i = 1; i < 5; ++i) add_operand(node_.inputs[i], channel);
      add_line(
          fmt::format("(x0[i] - x3[i]) / sqrtf(x4[i] + {}) * x1[i] + x2[i]", add_value(epsilon)));
      return;
    }
    std::array<std::vector<double>, 4> p;
    for (std::size_t i = 0; i < 4; ++i) p[i] = load<double>(*value(i + 1).constant);
    std::vector<double> scale(p[0].size()), shift(p[0].size());
    for (std::size_t c = 0; c < scale.size(); ++c) {
      scale[c] = p[0][c] / std::sqrt(p[3][c] + epsilon);
      shift[c] = p[1][c] - p[2][c] * scale[c];
    }
    const Shape along = {static_cast<std::int64_t>(scale.size())};
    add_floats_operand(make_tensor(DType::kFloat32, along, scale), channel);
    add_floats_operand(make_tensor(DType::kFloat32, along, shift), channel);
    add_line("x0[i] * x1[i] + x2[i]");
  }

  /// Scale and zero point are one for all, or vary along an axis.
  void add_quantisation() {
    const auto* quantize = node_.as<Quantize>();
    const std::int64_t axis = quantize != nullptr ? quantize->axis : node_.as<Dequantize>()->axis;
    add_operand(node_.inputs[0], broadcast_to(node_.inputs[0]));
    for (std::size_t i = 1; i < 3 && node_.input(i) != kNoValue; ++i) {
      Ints strides(shape_.size(), 0);
      if (element_count(plan_.graph.value(node_.inputs[i]).shape) > 1)
        strides[static_cast<std::size_t>(axis)] = 1;
      add_operand(node_.inputs[i], strides);
    }
    const char* zero = operands_.size() > 2 ? "x2[i]" : "0";
    if (quantize == nullptr) {
      add_line(fmt::format("dequantize(x0[i], x1[i], {})", zero));
      return;
    }
    const IntegerRange range = integer_range(plan_.graph.value(node_.outputs[0]).dtype);
    parameters_.wide_value[0] = static_cast<double>(range.low);
    parameters_.wide_value[1] = static_cast<double>(range.high);
    value_type_ = "double";
    add_line(fmt::format(
        "quantize(x0[i], x1[i], static_cast<double>({}), p.wide_value[0], p.wide_value[1])", zero));
  }

  void add_step(const EpilogueStep& step) {
    if (step.cast) return;  // the store converts
    if (step.unary) {
      add_line(call_of(*step.unary, "v[i]", [this](double value) { return add_value(value); }));
      return;
    }
    const std::string x = add_operand(step.operand, broadcast_to(step.operand)) + "[i]";
    add_line(step.swapped ? call_of(step.binary, x, "v[i]") : call_of(step.binary, "v[i]", x));
  }

  /// Collapses the axes, chooses V and which operands are read V at a time.
  void lay_out() {
    const Ints y = axis_strides(plan_, member_.result);
    for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
      BoxAxis box{shape_[axis], {y[axis]}};
      for (const Operand& operand : operands_) box.strides.push_back(operand.strides[axis]);
      axes_.push_back(std::move(box));
    }
    collapse(axes_);
    if (axes_.empty()) axes_.push_back({1, Ints(operands_.size() + 1, 1)});
    std::size_t smallest = size_of(result_);
    for (const Operand& operand : operands_) {
      if (!operand.strides.empty()) smallest = std::min(smallest, size_of(operand.dtype));
    }
    for (vector_ = static_cast<int>(16 / smallest); vector_ > 1; vector_ /= 2) {
      if (takes(vector_)) break;
    }
    for (std::size_t i = 0; i < operands_.size(); ++i)
      operands_[i].together = vector_ > 1 && axes_.back().strides[i + 1] == 1;
  }

  [[nodiscard]] bool takes(int vector) const {
    const BoxAxis& inner = axes_.back();
    if (inner.extent % vector != 0 || inner.strides[0] != 1) return false;
    const auto outer_strides = [this](std::size_t i) {
      Ints strides;
      for (std::size_t axis = 0; axis + 1 < axes_.size(); ++axis)
        strides.push_back(axes_[axis].strides[i]);
      return strides;
    };
    const auto fits = [&](DType dtype) { return static_cast<int>(size_of(dtype)) * vector <= 32; };
    if (!fits(result_) || !is_aligned(plan_, member_.result, outer_strides(0), vector))
      return false;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (inner.strides[i + 1] != 1) continue;
      const Operand& operand = operands_[i];
      const Ints strides = outer_strides(i + 1);
      const bool aligned = operand.value != kNoValue
                               ? is_aligned(plan_, operand.value, strides, vector)
                               : std::all_of(strides.begin(), strides.end(),
                                             [vector](std::int64_t s) { return s % vector == 0; });
      if (!fits(operand.dtype) || !aligned) return false;
    }
    return true;
  }

  Kernel finish() {
    const std::size_t axes = axes_.size();
    ensure(axes <= kPointwiseAxes, "the axes of a chain fit its parameters");
    std::int64_t count = 1;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      const bool inner = axis + 1 == axes;
      const std::int64_t times = inner ? vector_ : 1;
      parameters_.extent[axis] = divisor_of(axis > 0 ? axes_[axis].extent / times : 1);
      parameters_.y_stride[axis] = axes_[axis].strides[0] * times;
      for (std::size_t i = 0; i < operands_.size(); ++i)
        parameters_.x_stride[i][axis] = axes_[axis].strides[i + 1] * times;
      count *= axes_[axis].extent / times;
    }
    parameters_.count = count;
    parameters_.y_step = axes_.back().strides[0];
    for (std::size_t i = 0; i < operands_.size(); ++i)
      parameters_.x_step[i] = axes_.back().strides[i + 1];

    std::string loads;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      loads += fmt::format(
          "    {0} x{1}[V]; load_elements<{2}, {3}>(x{1}, static_cast<const {2}*>(p.x[{1}]) + "
          "x[{1}], p.x_step[{1}]);\n",
          operand.compute, i, element_type(operand.dtype), operand.together);
    }
    const std::string map = fmt::format(
        "struct Map {{\n"
        "  static constexpr int kOperands = {}, kAxes = {}, V = {};\n"
        "  using Index = {};\n"
        "  static __device__ __forceinline__ void apply(const PointwiseParameters& p, i64 y,\n"
        "                                               const i64 (&x)[kOperands]) {{\n"
        "{}    {} v[V];\n{}"
        "    store_elements<{}, {}>(static_cast<{}*>(p.y) + y, p.y_step, v);\n"
        "  }}\n}};\n",
        operands_.size(), axes, vector_, index_type(count), loads, value_type_, lines_,
        element_type(result_), vector_ > 1, element_type(result_));
    const int threads = threads_for(count, plan_.device);
    emit(kernel_, "pointwise", {"pointwise.cuh"}, map, "PointwiseParameters",
         fmt::format("pointwise<Map, {}>", threads), threads);
    kernel_.grid.x = count == 0 ? 0 : blocks_for(count, threads);
    kernel_.overlaps = true;
    Parameters parameters(parameters_);
    parameters.point(parameters_.y, {Address::Of::kOutput, 0, 0});
    for (std::size_t i = 0; i < operands_.size(); ++i)
      parameters.point(parameters_.x[i], operands_[i].address);
    parameters.move_to(kernel_);
    return std::move(kernel_);
  }

  const Plan& plan_;
  const Group& group_;
  const Group::Member& member_;
  const Node& node_;
  Shape shape_;
  DType result_;
  Kernel kernel_;
  device::PointwiseParameters parameters_{};
  std::vector<Operand> operands_;
  std::vector<BoxAxis> axes_;
  std::string lines_;
  const char* value_type_ = "float";
  int values_ = 0;
  int vector_ = 1;
};

/// A conversion from one layout to the other and nothing else: a copy, which goes through tiles.
bool is_relayout(const Plan& plan, const KernelPlan& kernel) {
  const Group::Member& member = kernel.group.members.front();
  const Node& node = plan.graph.node(member.anchor);
  if ((node.as<Cast>() == nullptr && node.as<Identity>() == nullptr) || !member.epilogue.empty() ||
      loaded_value(plan, kernel.group, node.inputs[0]) != node.inputs[0])
    return false;
  const Value& from = plan.graph.value(node.inputs[0]);
  const auto layout = [&](ValueId id) {
    return plan.placements[static_cast<std::size_t>(id)].layout;
  };
  return is_image(from) && !from.is_constant() && !is_layout_neutral(from) &&
         layout(node.inputs[0]) != layout(member.result);
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  if (!is_relayout(plan, kernel)) return Emitter(plan, kernel).build();
  const ValueId from = cpu::anchor_of(plan.graph, kernel.group).inputs[0];
  const ValueId to = kernel.group.members.front().result;
  CopyEmitter copy(plan, kernel);
  copy.add(from, to, box_of(cpu::view_of(plan, from), cpu::view_of(plan, to)));
  return copy.build();
}

}  // namespace

Row pointwise() {
  KernelFamily family = image_family("pointwise");
  family.in_place = true;
  family.supports = supports;
  family.candidates = cpu::only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
