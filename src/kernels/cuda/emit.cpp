#include "kernels/cuda/emit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "graph/elements.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/strides.hpp"
#include "plan/stages.hpp"

namespace braze::cuda {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// The function of math.cuh, or of CUDA, and how many of alpha and beta it takes.
struct Name {
  const char* text;
  int values;
};

Name name_of(UnaryFn fn) {
  switch (fn) {
    case UnaryFn::kRelu:
      return {"relu", 0};
    case UnaryFn::kLeakyRelu:
      return {"leaky_relu", 1};
    case UnaryFn::kClip:
      return {"clip", 2};
    case UnaryFn::kSigmoid:
      return {"sigmoid", 0};
    case UnaryFn::kHardSigmoid:
      return {"hard_sigmoid", 2};
    case UnaryFn::kHardSwish:
      return {"hard_swish", 0};
    case UnaryFn::kSilu:
      return {"silu", 0};
    case UnaryFn::kMish:
      return {"mish", 0};
    case UnaryFn::kGelu:
      return {"gelu", 0};
    case UnaryFn::kGeluTanh:
      return {"gelu_tanh", 0};
    case UnaryFn::kTanh:
      return {"tanhf", 0};
    case UnaryFn::kElu:
      return {"elu", 1};
    case UnaryFn::kSelu:
      return {"selu", 2};
    case UnaryFn::kCelu:
      return {"celu", 1};
    case UnaryFn::kSoftplus:
      return {"softplus", 0};
    case UnaryFn::kSoftsign:
      return {"softsign", 0};
    case UnaryFn::kThresholdedRelu:
      return {"thresholded_relu", 1};
    case UnaryFn::kErf:
      return {"erff", 0};
    case UnaryFn::kExp:
      return {"expf", 0};
    case UnaryFn::kLog:
      return {"logf", 0};
    case UnaryFn::kSqrt:
      return {"sqrtf", 0};
    case UnaryFn::kAbs:
      return {"fabsf", 0};
    case UnaryFn::kNeg:
      return {"-", 0};
    case UnaryFn::kReciprocal:
      return {"reciprocal", 0};
    case UnaryFn::kFloor:
      return {"floorf", 0};
    case UnaryFn::kCeil:
      return {"ceilf", 0};
    case UnaryFn::kRound:
      return {"rintf", 0};
    case UnaryFn::kSign:
      return {"sign", 0};
    case UnaryFn::kSin:
      return {"sinf", 0};
    case UnaryFn::kCos:
      return {"cosf", 0};
    case UnaryFn::kNot:
    case UnaryFn::kIsNaN:
      break;
  }
  fail(ErrorCode::kInternal, "internal error: {} is no step of an epilogue", to_string(fn));
}

const char* name_of(BinaryFn fn) {
  constexpr std::array kNames = {"add", "sub",   "mul",     "div",     "powf",
                                 "mod", "fmodf", "minimum", "maximum", "prelu"};
  ensure(static_cast<std::size_t>(fn) < kNames.size(), "an epilogue's steps make floats");
  return kNames[static_cast<std::size_t>(fn)];
}

}  // namespace

std::string call_of(const Unary& op, const std::string& x,
                    const std::function<std::string(double)>& value) {
  const Name name = name_of(op.fn);
  std::string call = fmt::format("{}({}", name.text, x);
  if (name.values >= 1) call += ", " + value(op.alpha);
  if (name.values >= 2) call += ", " + value(op.beta);
  return call + ")";
}

std::string call_of(BinaryFn fn, const std::string& a, const std::string& b) {
  return fmt::format("{}({}, {})", name_of(fn), a, b);
}

const char* element_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return device_type(dtype);
    case DType::kFloat64:
      return "double";
    case DType::kInt8:
      return "signed char";
    case DType::kUInt8:
      return "unsigned char";
    case DType::kInt16:
      return "short";
    case DType::kUInt16:
      return "u16";
    case DType::kInt32:
      return "int";
    case DType::kUInt32:
      return "u32";
    case DType::kInt64:
      return "i64";
    case DType::kUInt64:
      return "u64";
    case DType::kBool:
      return "bool8";
  }
  fail(ErrorCode::kInternal, "unknown dtype {}", static_cast<int>(dtype));
}

const char* device_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float";
    case DType::kFloat16:
      return "half";
    case DType::kBFloat16:
      return "bfloat16";
    default:
      fail(ErrorCode::kInternal, "internal error: kernels compute in float, not {}",
           to_string(dtype));
  }
}

Address add_constant(Kernel& kernel, std::vector<std::byte> bytes) {
  kernel.constants.push_back(std::move(bytes));
  return {Address::Of::kConstant, static_cast<std::int32_t>(kernel.constants.size() - 1), 0};
}

Address add_floats(Kernel& kernel, const Tensor& tensor, std::int64_t multiple) {
  const std::vector<float> values = load<float>(tensor);
  const auto count = round_up(static_cast<std::int64_t>(values.size()), multiple);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(float));
  std::memcpy(bytes.data(), values.data(), values.size() * sizeof(float));
  return add_constant(kernel, std::move(bytes));
}

ValueId loaded_value(const Plan& plan, const Group& group, ValueId id) {
  if (id == kNoValue) return id;
  const NodeId producer = plan.graph.producer(id);
  const bool converted =
      std::find(group.casts.begin(), group.casts.end(), producer) != group.casts.end();
  return converted && producer != kNoNode ? plan.graph.node(producer).inputs[0] : id;
}

Address address_of(const Plan& plan, const Group& group, ValueId id, Kernel& kernel) {
  if (id == kNoValue) return {};
  const cpu::Operand operand = cpu::operand_of(plan, group, loaded_value(plan, group, id));
  if (operand.input >= 0) return {Address::Of::kInput, operand.input, 0};
  const auto* begin = static_cast<const std::byte*>(operand.constant.data());
  return add_constant(kernel, {begin, begin + operand.constant.bytes()});
}

bool takes_vectors(const Plan& plan, ValueId id, int vector) {
  const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
  const Value& value = plan.graph.value(id);
  const auto size = static_cast<std::int64_t>(size_of(value.dtype));
  const std::int64_t unit = std::min<std::int64_t>(16, vector * size);
  const auto rank = value.shape.size();
  if (rank < 2 || value.is_constant()) return false;
  const bool together =
      placement.layout == Layout::kChannelsLast || rank == 2 || is_layout_neutral(value);
  const std::int64_t pitch =
      placement.layout == Layout::kChannelsLast ? placement.pitch : value.shape[1];
  return together && value.shape[1] % vector == 0 && pitch * size % unit == 0 &&
         placement.offset % unit == 0;
}

device::OutputParameters output_parameters(const Plan& plan, ValueId result) {
  const Shape& shape = plan.graph.value(result).shape;
  const ImageStrides strides = image_strides(plan, result, shape);
  device::OutputParameters out{};
  out.stride_n = strides.n;
  out.stride_channel = strides.channel;
  out.stride_pixel = strides.pixel;
  out.n = 1;
  out.pixels = 1;
  out.channels = 1;
  if (shape.size() == 1) out.channels = static_cast<int>(shape[0]);
  if (shape.size() == 2) out.pixels = static_cast<int>(shape[0]);
  if (shape.size() >= 2) out.channels = static_cast<int>(shape[1]);
  if (shape.size() >= 3) {
    out.n = static_cast<int>(shape[0]);
    const std::int64_t pixels = element_count({shape.begin() + 2, shape.end()});
    if (pixels > std::numeric_limits<int>::max())
      fail(ErrorCode::kUnsupported, "value '{}': an image has {} pixels, at most 2^31 - 1 on a GPU",
           plan.graph.value(result).name, pixels);
    out.pixels = static_cast<int>(pixels);
  }
  if (shape.size() == 2) out.stride_n = 0;
  out.padded = out.channels;
  return out;
}

EpilogueEmitter::EpilogueEmitter(const Plan& plan, const KernelPlan& kernel, Kernel& to, int vector)
    : EpilogueEmitter(plan, kernel, kernel.group.members.back(), to, vector) {}

EpilogueEmitter::EpilogueEmitter(const Plan& plan, const KernelPlan& kernel,
                                 const Group::Member& member, Kernel& to, int vector)
    : plan_(plan),
      kernel_(kernel),
      to_(to),
      vector_(vector),
      result_(plan.graph.value(member.result).shape) {}

std::string EpilogueEmitter::add_value(double value) {
  ensure(values_ < device::kMaxValues, "an epilogue's bounds and slopes fit its parameters");
  parameters_.value[values_] = static_cast<float>(value);
  return fmt::format("e.value[{}]", values_++);
}

std::optional<StagedOperand> EpilogueEmitter::stageable(ValueId id, const Shape& result) {
  const ValueId loaded = loaded_value(plan_, kernel_.group, id);
  const Value& value = plan_.graph.value(loaded);
  if (value.is_constant() || value.shape != result) return std::nullopt;
  const auto size = static_cast<std::int64_t>(size_of(value.dtype));
  const Placement& placement = plan_.placements[static_cast<std::size_t>(loaded)];
  if (size < 2 || size > most_staged_bytes_ || placement.offset % 16 != 0 ||
      !takes_vectors(plan_, loaded, vector_))
    return std::nullopt;
  const std::int64_t pitch =
      placement.layout == Layout::kChannelsLast ? placement.pitch : value.shape[1];
  if (pitch * size % 16 != 0) return std::nullopt;
  return StagedOperand{address_of(plan_, kernel_.group, id, to_), value.dtype, pitch};
}

/// The statement that loads V channels of an operand to x.
std::string EpilogueEmitter::add_operand(ValueId id, const Shape& result) {
  if (const auto found = on_chip_.find(id); found != on_chip_.end()) return found->second;
  if (staged_row_ && !staged_) {
    staged_ = stageable(id, result);
    if (staged_) {
      return fmt::format("float x[V]; load_staged<{}, {}>(x, at);", device_type(staged_->dtype),
                         staged_row_(staged_->dtype));
    }
  }
  ensure(operands_.size() < device::kMaxOperands, "an epilogue's operands fit its parameters");
  const Value& value = plan_.graph.value(id);
  ImageStrides strides = image_strides(plan_, loaded_value(plan_, kernel_.group, id), result);
  if (result.size() == 2) strides.n = 0;  // rows are pixels
  const char* access = "kEach";
  const char* type = "float";
  if (strides.channel == 0) access = "kOne";
  if (value.is_constant()) {
    // As fp32, with room for a whole vector behind the last channel.
    const bool dense_channels = strides.channel == 1 && strides.pixel == 0 && strides.n == 0;
    operands_.push_back(add_floats(to_, *value.constant, dense_channels ? 32 : 1));
    if (dense_channels) return add_channels();
  } else {
    operands_.push_back(address_of(plan_, kernel_.group, id, to_));
    const ValueId loaded = loaded_value(plan_, kernel_.group, id);
    type = device_type(plan_.graph.value(loaded).dtype);
    if (strides.channel == 1 && takes_vectors(plan_, loaded, vector_)) access = "kVector";
  }
  device::EpilogueOperand& operand = parameters_.operand[operands_.size() - 1];
  operand.stride_n = strides.n;
  operand.stride_pixel = strides.pixel;
  operand.stride_channel = strides.channel;
  return fmt::format("float x[V]; load_operand<{}, Access::{}>(x, e.operand[{}], at);", type,
                     access, operands_.size() - 1);
}

/// The last operand is a constant along channels: the statement that names V of them x.
std::string EpilogueEmitter::add_channels() {
  const std::size_t index = operands_.size() - 1;
  parameters_.operand[index].stride_channel = 1;
  constants_.push_back(index);
  return fmt::format("const auto& x = c.x{};", index);
}

void EpilogueEmitter::add_line(const std::string& expression, const std::string& load) {
  body_ += fmt::format("    {{ {} BRAZE_UNROLL for (int i = 0; i < V; ++i) v[i] = {}; }}\n", load,
                       expression);
}

void EpilogueEmitter::add_bias(ValueId bias) {
  if (bias == kNoValue) return;
  const Value& value = plan_.graph.value(bias);
  ensure(operands_.size() < device::kMaxOperands, "an epilogue's operands fit its parameters");
  std::string load;
  if (value.is_constant()) {
    operands_.push_back(add_floats(to_, *value.constant, 32));
    load = add_channels();
  } else {
    operands_.push_back(address_of(plan_, kernel_.group, bias, to_));
    parameters_.operand[operands_.size() - 1].stride_channel = 1;
    const ValueId loaded = loaded_value(plan_, kernel_.group, bias);
    load = fmt::format("float x[V]; load_operand<{}, Access::kEach>(x, e.operand[{}], at);",
                       device_type(plan_.graph.value(loaded).dtype), operands_.size() - 1);
  }
  add_line("add(v[i], x[i])", load);
  label_ += "_bias";
}

void EpilogueEmitter::add_scaled(ValueId operand, double factor) {
  const std::string load = add_operand(operand, result_);
  add_line(factor == 1 ? "add(v[i], x[i])" : fmt::format("add(v[i], {} * x[i])", add_value(factor)),
           load);
  label_ += "_add";
}

void EpilogueEmitter::add_steps(const Group::Member& member) {
  for (const EpilogueStep& step : member.epilogue.steps) {
    if (step.cast) continue;  // the store converts
    if (step.unary) {
      add_line(call_of(*step.unary, "v[i]", [this](double value) { return add_value(value); }), "");
      label_ += fmt::format("_{}", to_string(step.unary->fn));
      continue;
    }
    const std::string load = add_operand(step.operand, plan_.graph.value(member.result).shape);
    add_line(
        step.swapped ? call_of(step.binary, "x[i]", "v[i]") : call_of(step.binary, "v[i]", "x[i]"),
        load);
    label_ += fmt::format("_{}", to_string(step.binary));
  }
}

std::string EpilogueEmitter::source(std::string_view name) const {
  std::string members, loads;
  for (const std::size_t index : constants_) {
    members += fmt::format("    float x{}[V];\n", index);
    loads += fmt::format(
        "    load_vector<float, V>(c.x{0}, static_cast<const float*>(e.operand[{0}].data) + "
        "channel);\n",
        index);
  }
  return fmt::format(
      "struct {} {{\n"
      "  template <int V>\n"
      "  struct Constants {{\n"
      "{}  }};\n"
      "  template <int V>\n"
      "  static __device__ __forceinline__ void load(Constants<V>& c, const EpilogueParameters& "
      "e,\n"
      "                                              int channel) {{\n"
      "{}  }}\n"
      "  template <int V>\n"
      "  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,\n"
      "                                               const Position& at, const Constants<V>& c) "
      "{{\n"
      "{}  }}\n"
      "  template <int V>\n"
      "  static __device__ __forceinline__ void apply(float (&v)[V], const EpilogueParameters& e,\n"
      "                                               const Position& at) {{\n"
      "    Constants<V> c;\n"
      "    load(c, e, at.channel);\n"
      "    apply(v, e, at, c);\n"
      "  }}\n"
      "}};\n",
      name, members, loads, body_);
}

void EpilogueEmitter::point(Parameters& parameters, device::EpilogueParameters& block) const {
  for (std::size_t i = 0; i < operands_.size(); ++i)
    parameters.point(block.operand[i].data, operands_[i]);
}

void emit(Kernel& kernel, std::string_view family, const std::vector<std::string>& headers,
          const std::string& body, std::string_view parameters, const std::string& call,
          int threads, int blocks_per_sm) {
  std::string source;
  for (const std::string& header : headers)
    source += fmt::format("#include \"braze/{}\"\n", header);
  source += "\nnamespace braze::device {\n\n" + body + "\n}  // namespace braze::device\n";
  const std::string rest =
      fmt::format("(const __grid_constant__ {} p) {{\n  {}(p);\n}}\n", parameters, call);
  const std::string text = source + rest;
  kernel.entry = fmt::format("{}_{:016x}", family, hash_of(std::as_bytes(std::span(text))).low);
  kernel.source = source +
                  fmt::format(
                      "\nusing namespace braze::device;\n\n"
                      "extern \"C\" __global__ void __launch_bounds__({}, {})\n{}",
                      threads, blocks_per_sm, kernel.entry) +
                  rest;
  kernel.block.x = static_cast<std::uint32_t>(threads);
}

}  // namespace braze::cuda
