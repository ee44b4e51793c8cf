#include "graph/op.hpp"

namespace braze {

const char* to_string(OpKind kind) {
  switch (kind) {
#define BRAZE_CASE(Name) \
  case OpKind::k##Name:  \
    return #Name;
    BRAZE_OPS(BRAZE_CASE)
#undef BRAZE_CASE
  }
  return "?";
}

const char* to_string(UnaryFn fn) {
  constexpr const char* kNames[] = {"relu",
                                    "leaky_relu",
                                    "clip",
                                    "sigmoid",
                                    "hard_sigmoid",
                                    "hard_swish",
                                    "silu",
                                    "mish",
                                    "gelu",
                                    "gelu_tanh",
                                    "tanh",
                                    "elu",
                                    "selu",
                                    "celu",
                                    "softplus",
                                    "softsign",
                                    "thresholded_relu",
                                    "erf",
                                    "exp",
                                    "log",
                                    "sqrt",
                                    "abs",
                                    "neg",
                                    "reciprocal",
                                    "floor",
                                    "ceil",
                                    "round",
                                    "sign",
                                    "sin",
                                    "cos",
                                    "not",
                                    "is_nan"};
  return kNames[static_cast<std::size_t>(fn)];
}

const char* to_string(BinaryFn fn) {
  constexpr const char* kNames[] = {"add",           "sub",     "mul",
                                    "div",           "pow",     "mod",
                                    "fmod",          "min",     "max",
                                    "prelu",         "equal",   "less",
                                    "less_or_equal", "greater", "greater_or_equal",
                                    "and",           "or",      "xor"};
  return kNames[static_cast<std::size_t>(fn)];
}

const char* to_string(ReduceFn fn) {
  constexpr const char* kNames[] = {"mean", "sum", "max",     "min",         "prod",
                                    "l1",   "l2",  "log_sum", "log_sum_exp", "sum_square"};
  return kNames[static_cast<std::size_t>(fn)];
}

const char* to_string(AutoPad mode) {
  constexpr const char* kNames[] = {"explicit", "valid", "same_upper", "same_lower"};
  return kNames[static_cast<std::size_t>(mode)];
}

const char* to_string(PoolFn fn) { return fn == PoolFn::kMax ? "max" : "average"; }

const char* to_string(PadMode mode) {
  constexpr const char* kNames[] = {"constant", "reflect", "edge", "wrap"};
  return kNames[static_cast<std::size_t>(mode)];
}

const char* to_string(ResizeMode mode) {
  constexpr const char* kNames[] = {"nearest", "linear", "cubic"};
  return kNames[static_cast<std::size_t>(mode)];
}

const char* to_string(CoordinateMode mode) {
  constexpr const char* kNames[] = {
      "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
      "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
  return kNames[static_cast<std::size_t>(mode)];
}

const char* to_string(NearestMode mode) {
  constexpr const char* kNames[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  return kNames[static_cast<std::size_t>(mode)];
}

const char* to_string(AspectPolicy policy) {
  constexpr const char* kNames[] = {"stretch", "not_larger", "not_smaller"};
  return kNames[static_cast<std::size_t>(policy)];
}

}  // namespace braze
