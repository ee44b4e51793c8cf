#include "kernels/cpu/pointwise_typed.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <type_traits>
#include <utility>

#include "graph/elements.hpp"
#include "graph/interpret.hpp"

namespace braze::cpu {
namespace {

/// Elements of one row of an operand. Step is an integral_constant where the stride is known.
template <class T, class Step>
struct Column {
  const T* first;
  Step step;
  T operator[](std::int64_t c) const { return first[c * step]; }
};

template <class Y, class F, class... Columns>
void map_row(Y* y, std::int64_t cols, const F& f, const Columns... x) {
  for (std::int64_t c = 0; c < cols; ++c) y[c] = f(x[c]...);
}

template <class... T>
struct Types {};

template <class Y, class... X, std::size_t... I, class F, class... Step>
void map_rows(const Chunk& chunk, const TypedArguments& arguments, Types<Y, X...>,
              std::index_sequence<I...>, const F& f, Step... step) {
  for (std::int64_t r = 0; r < chunk.shape.rows; ++r) {
    map_row(static_cast<Y*>(arguments.y) + r * chunk.y_row, chunk.shape.cols, f,
            Column<X, Step>{static_cast<const X*>(arguments.x[I]) + r * chunk.x_row[I], step}...);
  }
}

/// y[r][c] = f(x0[r][c], ...) over a chunk. Operands whose columns are adjacent, or one for a row,
/// get loops of their own, which the compiler turns into vector code.
template <class Y, class... X, class F>
void for_chunk(const Chunk& chunk, const TypedArguments& arguments, const F& f) {
  const auto run = [&](auto... step) {
    map_rows(chunk, arguments, Types<Y, X...>{}, std::index_sequence_for<X...>{}, f, step...);
  };
  using Beside = std::integral_constant<std::int64_t, 1>;
  using Same = std::integral_constant<std::int64_t, 0>;
  const auto is = [&chunk](std::size_t operand, std::int64_t step) {
    return chunk.x_col[operand] == step;
  };
  if constexpr (sizeof...(X) == 1) {
    if (is(0, 1)) return run(Beside{});
    run(chunk.x_col[0]);
  } else if constexpr (sizeof...(X) == 2) {
    if (is(0, 1) && is(1, 1)) return run(Beside{}, Beside{});
    if (is(0, 1) && is(1, 0)) return run(Beside{}, Same{});
    if (is(0, 0) && is(1, 1)) return run(Same{}, Beside{});
    run(chunk.x_col[0], chunk.x_col[1]);
  } else {
    if (is(0, 1) && is(1, 1) && is(2, 1)) return run(Beside{}, Beside{}, Beside{});
    if (is(0, 1) && is(1, 1) && is(2, 0)) return run(Beside{}, Beside{}, Same{});
    if (is(0, 1) && is(1, 0) && is(2, 1)) return run(Beside{}, Same{}, Beside{});
    run(chunk.x_col[0], chunk.x_col[1], chunk.x_col[2]);
  }
}

/// The type that integers are computed in; they wrap when they are stored.
template <class T>
using Wide = std::conditional_t<std::same_as<T, std::uint64_t>, std::uint64_t, std::int64_t>;

/// Arithmetic on the bits of a Wide: sums and products wrap.
template <class C>
C wrap(std::uint64_t bits) {
  return static_cast<C>(bits);
}

template <class C>
C divide(C a, C b) {
  if (b == 0) return 0;
  if (std::is_signed_v<C> && b == static_cast<C>(-1))
    return wrap<C>(0 - static_cast<std::uint64_t>(a));
  return static_cast<C>(a / b);
}

template <class C>
C remainder(C a, C b) {
  return b == 0 || (std::is_signed_v<C> && b == static_cast<C>(-1)) ? 0 : static_cast<C>(a % b);
}

template <class C>
C floor_mod(C a, C b) {
  const C rest = remainder(a, b);
  return rest != 0 && (rest < C{0}) != (b < C{0})
             ? wrap<C>(static_cast<std::uint64_t>(rest) + static_cast<std::uint64_t>(b))
             : rest;
}

/// A negative power is 0 unless the base is 1 or -1.
template <class C>
C power(C base, C exponent) {
  if (std::is_signed_v<C> && exponent < C{0}) {
    if (base == 1) return 1;
    return base == static_cast<C>(-1) ? (exponent % 2 == 0 ? C{1} : base) : C{0};
  }
  std::uint64_t result = 1;
  std::uint64_t square = static_cast<std::uint64_t>(base);
  for (std::uint64_t rest = static_cast<std::uint64_t>(exponent); rest != 0; rest >>= 1U) {
    if ((rest & 1U) != 0) result *= square;
    square *= square;
  }
  return wrap<C>(result);
}

/// f(a, b) of integers.
template <BinaryFn kFn, class C>
C integer(C a, C b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  if constexpr (kFn == BinaryFn::kAdd) return wrap<C>(x + y);
  if constexpr (kFn == BinaryFn::kSub) return wrap<C>(x - y);
  if constexpr (kFn == BinaryFn::kMul) return wrap<C>(x * y);
  if constexpr (kFn == BinaryFn::kDiv) return divide(a, b);
  if constexpr (kFn == BinaryFn::kPow) return power(a, b);
  if constexpr (kFn == BinaryFn::kMod) return floor_mod(a, b);
  if constexpr (kFn == BinaryFn::kFMod) return remainder(a, b);
  if constexpr (kFn == BinaryFn::kMin) return std::min(a, b);
  if constexpr (kFn == BinaryFn::kMax) return std::max(a, b);
  if constexpr (kFn == BinaryFn::kPRelu) return a < C{0} ? wrap<C>(x * y) : a;
}

template <BinaryFn kFn, class T>
bool compare(T a, T b) {
  if constexpr (kFn == BinaryFn::kEqual) return a == b;
  if constexpr (kFn == BinaryFn::kLess) return a < b;
  if constexpr (kFn == BinaryFn::kLessOrEqual) return a <= b;
  if constexpr (kFn == BinaryFn::kGreater) return a > b;
  if constexpr (kFn == BinaryFn::kGreaterOrEqual) return a >= b;
}

template <BinaryFn kFn>
bool logical(bool a, bool b) {
  if constexpr (kFn == BinaryFn::kAnd) return a && b;
  if constexpr (kFn == BinaryFn::kOr) return a || b;
  if constexpr (kFn == BinaryFn::kXor) return a != b;
  if constexpr (kFn == BinaryFn::kEqual) return a == b;
}

template <class T>
concept Small16 = std::same_as<T, Float16> || std::same_as<T, BFloat16>;

template <BinaryFn kFn, class T>
void binary(const Chunk& chunk, const TypedArguments& arguments) {
  constexpr bool kCompares = kFn >= BinaryFn::kEqual && kFn <= BinaryFn::kGreaterOrEqual;
  if constexpr (std::same_as<T, Bool8>) {
    for_chunk<std::uint8_t, Bool8, Bool8>(chunk, arguments, [](Bool8 a, Bool8 b) {
      return static_cast<std::uint8_t>(logical<kFn>(a.byte != 0, b.byte != 0));
    });
  } else if constexpr (kCompares) {
    for_chunk<std::uint8_t, T, T>(chunk, arguments, [](T a, T b) {
      if constexpr (Small16<T>) {
        return static_cast<std::uint8_t>(
            compare<kFn>(static_cast<double>(a), static_cast<double>(b)));
      } else {
        return static_cast<std::uint8_t>(compare<kFn>(a, b));
      }
    });
  } else if constexpr (std::integral<T>) {
    for_chunk<T, T, T>(chunk, arguments, [](T a, T b) {
      return static_cast<T>(
          integer<kFn, Wide<T>>(static_cast<Wide<T>>(a), static_cast<Wide<T>>(b)));
    });
  } else {
    for_chunk<T, T, T>(chunk, arguments, [](T a, T b) {
      return static_cast<T>(evaluate(kFn, static_cast<double>(a), static_cast<double>(b)));
    });
  }
}

template <class T>
TypedChunk find_binary(BinaryFn fn) {
  if constexpr (std::same_as<T, Bool8>) {
#define BRAZE_CASE(Name)  \
  case BinaryFn::k##Name: \
    return binary<BinaryFn::k##Name, T>;
    switch (fn) {
      BRAZE_CASE(Equal)
      BRAZE_CASE(And)
      BRAZE_CASE(Or)
      BRAZE_CASE(Xor)
      default:
        return nullptr;
    }
  } else {
    switch (fn) {
      BRAZE_CASE(Add)
      BRAZE_CASE(Sub)
      BRAZE_CASE(Mul)
      BRAZE_CASE(Div)
      BRAZE_CASE(Pow)
      BRAZE_CASE(Mod)
      BRAZE_CASE(FMod)
      BRAZE_CASE(Min)
      BRAZE_CASE(Max)
      BRAZE_CASE(PRelu)
      BRAZE_CASE(Equal)
      BRAZE_CASE(Less)
      BRAZE_CASE(LessOrEqual)
      BRAZE_CASE(Greater)
      BRAZE_CASE(GreaterOrEqual)
      default:
        return nullptr;
    }
#undef BRAZE_CASE
  }
}

/// A bound of Clip as an integer of type C.
template <class C>
C integer_bound(double bound) {
  if (bound <= static_cast<double>(std::numeric_limits<C>::min()))
    return std::numeric_limits<C>::min();
  if (bound >= static_cast<double>(std::numeric_limits<C>::max()))
    return std::numeric_limits<C>::max();
  return static_cast<C>(bound);
}

template <class T>
void unary(const Chunk& chunk, const TypedArguments& arguments) {
  const Unary& op = *std::get_if<Unary>(arguments.op);
  if constexpr (std::same_as<T, Bool8>) {
    for_chunk<std::uint8_t, Bool8>(chunk, arguments,
                                   [](Bool8 x) { return static_cast<std::uint8_t>(x.byte == 0); });
  } else if constexpr (std::integral<T>) {
    using C = Wide<T>;
    const auto map = [&](auto f) {
      for_chunk<T, T>(chunk, arguments, [f](T x) { return static_cast<T>(f(static_cast<C>(x))); });
    };
    const auto negate = [](C x) { return wrap<C>(0 - static_cast<std::uint64_t>(x)); };
    switch (op.fn) {
      case UnaryFn::kRelu:
        return map([](C x) { return std::max(x, C{0}); });
      case UnaryFn::kAbs:
        return map([negate](C x) { return x < C{0} ? negate(x) : x; });
      case UnaryFn::kNeg:
        return map(negate);
      case UnaryFn::kSign:
        return map([](C x) { return static_cast<C>((x > C{0} ? 1 : 0) - (x < C{0} ? 1 : 0)); });
      default: {
        const C lo = integer_bound<C>(op.alpha), hi = integer_bound<C>(op.beta);
        return map([lo, hi](C x) { return std::min(std::max(x, lo), hi); });
      }
    }
  } else if (op.fn == UnaryFn::kIsNaN) {
    for_chunk<std::uint8_t, T>(chunk, arguments, [](T x) {
      return static_cast<std::uint8_t>(std::isnan(static_cast<double>(x)));
    });
  } else {
    for_chunk<T, T>(chunk, arguments,
                    [&op](T x) { return static_cast<T>(evaluate(op, static_cast<double>(x))); });
  }
}

bool takes(UnaryFn fn, DType dtype) {
  switch (fn) {
    case UnaryFn::kNot:
      return dtype == DType::kBool;
    case UnaryFn::kRelu:
    case UnaryFn::kClip:
    case UnaryFn::kAbs:
    case UnaryFn::kNeg:
    case UnaryFn::kSign:
      return dtype != DType::kBool;
    default:
      return is_float(dtype);
  }
}

template <class From, class To>
void cast_chunk(const Chunk& chunk, const TypedArguments& arguments) {
  for_chunk<To, From>(chunk, arguments, [](From x) { return convert<To>(x); });
}

template <class T>
void where_chunk(const Chunk& chunk, const TypedArguments& arguments) {
  for_chunk<T, Bool8, T, T>(chunk, arguments,
                            [](Bool8 condition, T a, T b) { return condition.byte != 0 ? a : b; });
}

TypedChunk find_where(std::size_t size) {
  switch (size) {
    case 1:
      return where_chunk<std::uint8_t>;
    case 2:
      return where_chunk<std::uint16_t>;
    case 4:
      return where_chunk<std::uint32_t>;
    default:
      return where_chunk<std::uint64_t>;
  }
}

}  // namespace

TypedChunk typed_chunk(const Graph& graph, const Node& node) {
  const DType from = graph.value(node.inputs[0]).dtype;
  const DType to = graph.value(node.outputs[0]).dtype;
  if (const auto* op = node.as<Unary>()) {
    if (!takes(op->fn, from)) return nullptr;
    return visit_storage(from, [](auto zero) -> TypedChunk { return unary<decltype(zero)>; });
  }
  if (const auto* op = node.as<Binary>()) {
    if (graph.value(node.inputs[1]).dtype != from) return nullptr;
    return visit_storage(from, [op](auto zero) { return find_binary<decltype(zero)>(op->fn); });
  }
  if (node.as<Where>() != nullptr) return find_where(size_of(to));
  if (node.as<Cast>() != nullptr || node.as<Identity>() != nullptr) {
    return visit_storage(from, [to](auto x) {
      return visit_storage(
          to, [](auto y) -> TypedChunk { return cast_chunk<decltype(x), decltype(y)>; });
    });
  }
  return nullptr;
}

}  // namespace braze::cpu
