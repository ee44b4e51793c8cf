// Reduce, ArgReduce.
#include <algorithm>

#include "graph/interpret.hpp"
#include "graph/interpret/call.hpp"

namespace braze::graph {
namespace {

/// The elements of x that each output element reduces, in row-major order.
class Groups {
 public:
  Groups(const Shape& x, const Ints& axes) {
    Shape kept = x;
    for (const std::int64_t axis : axes) {
      const auto i = static_cast<std::size_t>(axis);
      count_ *= x[i];
      kept[i] = 1;
    }
    shape_ = x;
    strides_ = broadcast_strides(kept, x);
    outputs_ = static_cast<std::size_t>(element_count(kept));
  }

  [[nodiscard]] std::int64_t count() const { return count_; }

  /// accumulated[output] = f(accumulated[output], x) for each element, starting from `start`.
  template <class C, class F>
  [[nodiscard]] std::vector<C> reduce(const std::vector<C>& x, C start, F&& f) const {
    std::vector<C> accumulated(outputs_, start);
    std::size_t i = 0;
    for_each_element(shape_, std::array{strides_}, [&](const auto& at) {
      C& value = accumulated[static_cast<std::size_t>(at[0])];
      value = f(value, x[i++]);
    });
    return accumulated;
  }

  template <class C>
  [[nodiscard]] std::vector<C> sum(const std::vector<C>& x) const {
    return reduce(x, C{}, [](C a, C b) { return a + b; });
  }

  /// log(sum of exp(x)), shifted by the largest element
  [[nodiscard]] std::vector<double> log_sum_exp(const std::vector<double>& x) const {
    const auto shift = reduce(x, -std::numeric_limits<double>::infinity(),
                              [](double a, double b) { return evaluate(BinaryFn::kMax, a, b); });
    std::vector<double> sums(outputs_, 0);
    std::size_t i = 0;
    for_each_element(shape_, std::array{strides_}, [&](const auto& at) {
      const auto output = static_cast<std::size_t>(at[0]);
      sums[output] += std::isinf(shift[output]) ? std::exp(x[i]) : std::exp(x[i] - shift[output]);
      ++i;
    });
    for (std::size_t output = 0; output < outputs_; ++output) {
      sums[output] = std::log(sums[output]) + (std::isinf(shift[output]) ? 0 : shift[output]);
    }
    return sums;
  }

 private:
  Shape shape_;
  Ints strides_;
  std::size_t outputs_ = 1;
  std::int64_t count_ = 1;
};

template <class C>
std::vector<C> mapped(std::vector<C> values, C (*f)(C)) {
  std::transform(values.begin(), values.end(), values.begin(), f);
  return values;
}

std::vector<double> reduce_floats(ReduceFn fn, const Groups& groups, const std::vector<double>& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto square = [](double v) { return v * v; };
  switch (fn) {
    case ReduceFn::kMean: {
      auto sums = groups.sum(x);
      for (double& value : sums) value /= static_cast<double>(groups.count());
      return sums;
    }
    case ReduceFn::kSum:
      return groups.sum(x);
    case ReduceFn::kMax:
      return groups.reduce(x, -kInfinity,
                           [](double a, double b) { return evaluate(BinaryFn::kMax, a, b); });
    case ReduceFn::kMin:
      return groups.reduce(x, kInfinity,
                           [](double a, double b) { return evaluate(BinaryFn::kMin, a, b); });
    case ReduceFn::kProd:
      return groups.reduce(x, 1.0, [](double a, double b) { return a * b; });
    case ReduceFn::kL1:
      return groups.sum(mapped<double>(x, [](double v) { return std::fabs(v); }));
    case ReduceFn::kL2:
      return mapped<double>(groups.sum(mapped<double>(x, square)),
                            [](double v) { return std::sqrt(v); });
    case ReduceFn::kLogSum:
      return mapped<double>(groups.sum(x), [](double v) { return std::log(v); });
    case ReduceFn::kLogSumExp:
      return groups.log_sum_exp(x);
    case ReduceFn::kSumSquare:
      return groups.sum(mapped<double>(x, square));
  }
  fail(ErrorCode::kInternal, "internal error: unknown reduction");
}

/// Sums and products wrap. `low` and `high` bound the dtype.
template <class C>
std::vector<C> reduce_integers(ReduceFn fn, const Groups& groups, const std::vector<C>& x, C low,
                               C high) {
  using Bits = std::uint64_t;
  const auto add = [](C a, C b) {
    return static_cast<C>(static_cast<Bits>(a) + static_cast<Bits>(b));
  };
  const auto multiply = [](C a, C b) {
    return static_cast<C>(static_cast<Bits>(a) * static_cast<Bits>(b));
  };
  switch (fn) {
    case ReduceFn::kMean: {
      auto sums = groups.reduce(x, C{0}, add);
      for (C& value : sums)
        value = groups.count() == 0 ? C{0} : static_cast<C>(value / static_cast<C>(groups.count()));
      return sums;
    }
    case ReduceFn::kSum:
      return groups.reduce(x, C{0}, add);
    case ReduceFn::kMax:
      return groups.reduce(x, low, [](C a, C b) { return std::max(a, b); });
    case ReduceFn::kMin:
      return groups.reduce(x, high, [](C a, C b) { return std::min(a, b); });
    case ReduceFn::kProd:
      return groups.reduce(x, C{1}, multiply);
    case ReduceFn::kL1:
      return groups.reduce(x, C{0}, [&](C a, C b) {
        return add(a, b < C{0} ? multiply(b, static_cast<C>(-1)) : b);
      });
    case ReduceFn::kSumSquare:
      return groups.reduce(x, C{0}, [&](C a, C b) { return add(a, multiply(b, b)); });
    default:
      fail(ErrorCode::kInternal, "internal error: {} in integers", to_string(fn));
  }
}

bool needs_floats(ReduceFn fn) {
  return fn == ReduceFn::kL2 || fn == ReduceFn::kLogSum || fn == ReduceFn::kLogSumExp;
}

}  // namespace

void run_op(const Reduce& op, Call& call) {
  const Groups groups(call.shape(), op.axes);
  const DType dtype = call.input(0).dtype();
  if (is_float(dtype) || needs_floats(op.fn)) {
    call.store(reduce_floats(op.fn, groups, call.load<double>(0)));
  } else if (dtype == DType::kUInt64) {
    call.store(reduce_integers<std::uint64_t>(op.fn, groups, call.load<std::uint64_t>(0), 0,
                                              std::numeric_limits<std::uint64_t>::max()));
  } else {
    const IntegerRange range = integer_range(dtype);
    call.store(reduce_integers(op.fn, groups, call.load<std::int64_t>(0), range.low, range.high));
  }
}

/// The first (or last) of equal elements; NaN is never larger nor smaller than another element.
void run_op(const ArgReduce& op, Call& call) {
  const Shape& shape = call.shape();
  const std::int64_t extent = shape[static_cast<std::size_t>(op.axis)];
  const std::int64_t inner = element_count({shape.begin() + op.axis + 1, shape.end()});
  visit_compute(call.input(0).dtype(), [&](auto zero) {
    using C = decltype(zero);
    const std::vector<C> x = call.load<C>(0);
    Ints result;
    for (std::int64_t line = 0; line < call.output().count(); ++line) {
      const C* first = x.data() + line / inner * extent * inner + line % inner;
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < extent; ++i) {
        const C value = first[i * inner];
        const C least = first[best * inner];
        const bool better = op.max ? value > least : value < least;
        if (better || (op.select_last && value == least)) best = i;
      }
      result.push_back(best);
    }
    call.store(result);
  });
}

}  // namespace braze::graph
