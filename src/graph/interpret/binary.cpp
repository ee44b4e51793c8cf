// Binary, Where.
#include <algorithm>

#include "graph/interpret.hpp"
#include "graph/interpret/call.hpp"

namespace braze {
namespace {

double min_or_nan(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double max_or_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }

/// The sign of the divisor.
double floor_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace

double evaluate(BinaryFn fn, double a, double b) {
  switch (fn) {
    case BinaryFn::kAdd:
      return a + b;
    case BinaryFn::kSub:
      return a - b;
    case BinaryFn::kMul:
      return a * b;
    case BinaryFn::kDiv:
      return a / b;
    case BinaryFn::kPow:
      return std::pow(a, b);
    case BinaryFn::kMod:
      return floor_mod(a, b);
    case BinaryFn::kFMod:
      return std::fmod(a, b);
    case BinaryFn::kMin:
      return min_or_nan(a, b);
    case BinaryFn::kMax:
      return max_or_nan(a, b);
    case BinaryFn::kPRelu:
      return a < 0 ? b * a : a;
    case BinaryFn::kEqual:
      return a == b ? 1 : 0;
    case BinaryFn::kLess:
      return a < b ? 1 : 0;
    case BinaryFn::kLessOrEqual:
      return a <= b ? 1 : 0;
    case BinaryFn::kGreater:
      return a > b ? 1 : 0;
    case BinaryFn::kGreaterOrEqual:
      return a >= b ? 1 : 0;
    case BinaryFn::kAnd:
      return a != 0 && b != 0 ? 1 : 0;
    case BinaryFn::kOr:
      return a != 0 || b != 0 ? 1 : 0;
    case BinaryFn::kXor:
      return (a != 0) != (b != 0) ? 1 : 0;
  }
  fail(ErrorCode::kInternal, "internal error: unknown binary function");
}

namespace graph {
namespace {

/// Integers wrap: computed as unsigned, which is defined. Division by zero gives 0.
template <class C>
struct Integer {
  using Bits = std::uint64_t;
  static constexpr bool kSigned = std::is_signed_v<C>;

  static C wrap(Bits bits) { return static_cast<C>(bits); }

  static C divide(C a, C b) {
    if (b == 0) return 0;
    if (kSigned && b == static_cast<C>(-1)) return wrap(0 - static_cast<Bits>(a));
    return static_cast<C>(a / b);
  }

  static C remainder(C a, C b) {
    return b == 0 || (kSigned && b == static_cast<C>(-1)) ? 0 : static_cast<C>(a % b);
  }

  static C floor_mod(C a, C b) {
    const C rest = remainder(a, b);
    return rest != 0 && (rest < C{0}) != (b < C{0})
               ? wrap(static_cast<Bits>(rest) + static_cast<Bits>(b))
               : rest;
  }

  /// A negative power is 0 unless the base is 1 or -1.
  static C power(C base, C exponent) {
    if (kSigned && exponent < C{0}) {
      if (base == 1) return 1;
      return base == static_cast<C>(-1) ? (exponent % 2 == 0 ? 1 : base) : 0;
    }
    Bits result = 1;
    Bits square = static_cast<Bits>(base);
    for (Bits rest = static_cast<Bits>(exponent); rest != 0; rest >>= 1U) {
      if ((rest & 1U) != 0) result *= square;
      square *= square;
    }
    return wrap(result);
  }

  static C evaluate(BinaryFn fn, C a, C b) {
    switch (fn) {
      case BinaryFn::kAdd:
        return wrap(static_cast<Bits>(a) + static_cast<Bits>(b));
      case BinaryFn::kSub:
        return wrap(static_cast<Bits>(a) - static_cast<Bits>(b));
      case BinaryFn::kMul:
        return wrap(static_cast<Bits>(a) * static_cast<Bits>(b));
      case BinaryFn::kDiv:
        return divide(a, b);
      case BinaryFn::kPow:
        return power(a, b);
      case BinaryFn::kMod:
        return floor_mod(a, b);
      case BinaryFn::kFMod:
        return remainder(a, b);
      case BinaryFn::kMin:
        return std::min(a, b);
      case BinaryFn::kMax:
        return std::max(a, b);
      case BinaryFn::kPRelu:
        return a < C{0} ? wrap(static_cast<Bits>(a) * static_cast<Bits>(b)) : a;
      case BinaryFn::kEqual:
        return a == b ? 1 : 0;
      case BinaryFn::kLess:
        return a < b ? 1 : 0;
      case BinaryFn::kLessOrEqual:
        return a <= b ? 1 : 0;
      case BinaryFn::kGreater:
        return a > b ? 1 : 0;
      case BinaryFn::kGreaterOrEqual:
        return a >= b ? 1 : 0;
      case BinaryFn::kAnd:
        return a != 0 && b != 0 ? 1 : 0;
      case BinaryFn::kOr:
        return a != 0 || b != 0 ? 1 : 0;
      case BinaryFn::kXor:
        return (a != 0) != (b != 0) ? 1 : 0;
    }
    fail(ErrorCode::kInternal, "internal error: unknown binary function");
  }
};

}  // namespace

void run_op(const Binary& op, Call& call) {
  const Shape& shape = call.output().shape();
  const std::array strides = {broadcast_strides(call.shape(0), shape),
                              broadcast_strides(call.shape(1), shape)};
  visit_compute(call.input(0).dtype(), [&](auto zero) {
    using C = decltype(zero);
    const std::vector<C> a = call.load<C>(0);
    const std::vector<C> b = call.load<C>(1);
    std::vector<C> result;
    result.reserve(static_cast<std::size_t>(element_count(shape)));
    for_each_element(shape, strides, [&](const auto& at) {
      const C x = a[static_cast<std::size_t>(at[0])];
      const C y = b[static_cast<std::size_t>(at[1])];
      if constexpr (std::same_as<C, double>) {
        result.push_back(evaluate(op.fn, x, y));
      } else {
        result.push_back(Integer<C>::evaluate(op.fn, x, y));
      }
    });
    call.store(result);
  });
}

void run_op(const Where& /*op*/, Call& call) {
  const Shape& shape = call.output().shape();
  const std::array strides = {broadcast_strides(call.shape(0), shape),
                              broadcast_strides(call.shape(1), shape),
                              broadcast_strides(call.shape(2), shape)};
  const auto condition = call.load<std::int64_t>(0);
  visit_compute(call.input(1).dtype(), [&](auto zero) {
    using C = decltype(zero);
    const std::vector<C> a = call.load<C>(1);
    const std::vector<C> b = call.load<C>(2);
    std::vector<C> result;
    result.reserve(static_cast<std::size_t>(element_count(shape)));
    for_each_element(shape, strides, [&](const auto& at) {
      const bool first = condition[static_cast<std::size_t>(at[0])] != 0;
      result.push_back(first ? a[static_cast<std::size_t>(at[1])]
                             : b[static_cast<std::size_t>(at[2])]);
    });
    call.store(result);
  });
}

}  // namespace graph
}  // namespace braze
