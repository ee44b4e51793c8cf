// Unary, Cast, Identity.
#include <algorithm>
#include <numbers>

#include "graph/interpret.hpp"
#include "graph/interpret/call.hpp"

namespace braze {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
/// log(1 + exp(x)) without overflow
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
/// min(max(x, low), high) that keeps NaN
double clamp(double x, double low, double high) {
  if (std::isnan(x)) return x;
  return std::min(std::max(x, low), high);
}
double gelu_tanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

}  // namespace

double evaluate(const Unary& op, double x) {
  switch (op.fn) {
    case UnaryFn::kRelu:
      return x < 0 ? 0 : x;
    case UnaryFn::kLeakyRelu:
      return x < 0 ? op.alpha * x : x;
    case UnaryFn::kClip:
      return clamp(x, op.alpha, op.beta);
    case UnaryFn::kSigmoid:
      return sigmoid(x);
    case UnaryFn::kHardSigmoid:
      return clamp(op.alpha * x + op.beta, 0, 1);
    case UnaryFn::kHardSwish:
      return x * clamp(x / 6 + 0.5, 0, 1);
    case UnaryFn::kSilu:
      return x * sigmoid(x);
    case UnaryFn::kMish:
      return x * std::tanh(softplus(x));
    case UnaryFn::kGelu:
      return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
    case UnaryFn::kGeluTanh:
      return gelu_tanh(x);
    case UnaryFn::kTanh:
      return std::tanh(x);
    case UnaryFn::kElu:
      return x < 0 ? op.alpha * std::expm1(x) : x;
    case UnaryFn::kSelu:
      return op.beta * (x < 0 ? op.alpha * std::expm1(x) : x);
    case UnaryFn::kCelu:
      return x < 0 ? std::min(0.0, op.alpha * std::expm1(x / op.alpha)) : x;
    case UnaryFn::kSoftplus:
      return softplus(x);
    case UnaryFn::kSoftsign:
      return x / (1 + std::fabs(x));
    case UnaryFn::kThresholdedRelu:
      return x > op.alpha ? x : 0;
    case UnaryFn::kErf:
      return std::erf(x);
    case UnaryFn::kExp:
      return std::exp(x);
    case UnaryFn::kLog:
      return std::log(x);
    case UnaryFn::kSqrt:
      return std::sqrt(x);
    case UnaryFn::kAbs:
      return std::fabs(x);
    case UnaryFn::kNeg:
      return -x;
    case UnaryFn::kReciprocal:
      return 1 / x;
    case UnaryFn::kFloor:
      return std::floor(x);
    case UnaryFn::kCeil:
      return std::ceil(x);
    case UnaryFn::kRound:
      return std::nearbyint(x);
    case UnaryFn::kSign:
      return x > 0 ? 1 : (x < 0 ? -1 : x);
    case UnaryFn::kSin:
      return std::sin(x);
    case UnaryFn::kCos:
      return std::cos(x);
    case UnaryFn::kNot:
      return x == 0 ? 1 : 0;
    case UnaryFn::kIsNaN:
      return std::isnan(x) ? 1 : 0;
  }
  fail(ErrorCode::kInternal, "internal error: unknown unary function");
}

namespace graph {
namespace {

/// A bound of Clip as an integer of type C.
template <class C>
C integer_bound(double bound) {
  if (bound <= static_cast<double>(std::numeric_limits<C>::min()))
    return std::numeric_limits<C>::min();
  if (bound >= static_cast<double>(std::numeric_limits<C>::max()))
    return std::numeric_limits<C>::max();
  return static_cast<C>(bound);
}

template <class C>
C evaluate_integer(const Unary& op, C x) {
  const bool negative = std::is_signed_v<C> && x < C{0};
  switch (op.fn) {
    case UnaryFn::kRelu:
      return negative ? 0 : x;
    case UnaryFn::kClip:
      return std::min(std::max(x, integer_bound<C>(op.alpha)), integer_bound<C>(op.beta));
    case UnaryFn::kAbs:
      return negative ? static_cast<C>(0 - static_cast<std::uint64_t>(x)) : x;
    case UnaryFn::kNeg:
      return static_cast<C>(0 - static_cast<std::uint64_t>(x));
    case UnaryFn::kSign:
      return negative ? static_cast<C>(-1) : static_cast<C>(x != 0);
    case UnaryFn::kNot:
      return x == 0 ? 1 : 0;
    default:
      fail(ErrorCode::kInternal, "internal error: {} of integers", to_string(op.fn));
  }
}

}  // namespace

void run_op(const Unary& op, Call& call) {
  visit_compute(call.input(0).dtype(), [&](auto zero) {
    using C = decltype(zero);
    std::vector<C> values = call.load<C>(0);
    for (C& value : values) {
      if constexpr (std::same_as<C, double>) {
        value = evaluate(op, value);
      } else {
        value = evaluate_integer(op, value);
      }
    }
    call.store(values);
  });
}

void run_op(const Cast& op, Call& call) { call.output() = cast(call.input(0), op.to); }
void run_op(const Identity& /*op*/, Call& call) { call.output() = call.input(0); }

}  // namespace graph
}  // namespace braze
