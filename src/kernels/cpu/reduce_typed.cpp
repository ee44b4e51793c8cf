// Reductions of any dtype, element by element, in double or in 64-bit integers that wrap.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "graph/interpret.hpp"
#include "kernels/cpu/reduce.hpp"

namespace braze::cpu {
namespace {

constexpr std::int64_t kTaskElements = 4096;
constexpr std::int64_t kWorthWaking = 32 * 1024;  // elements

bool needs_floats(ReduceFn fn) {
  return fn == ReduceFn::kL2 || fn == ReduceFn::kLogSum || fn == ReduceFn::kLogSumExp;
}

/// Visits x's elements of one output: visit(start, f) returns f(f(start, x0), x1)...
template <class C, class Visit>
C reduce_line(ReduceFn fn, std::int64_t terms, C low, C high, Visit visit) {
  constexpr bool kFloats = std::is_same_v<C, double>;
  const auto add = [](C a, C b) {
    if constexpr (kFloats)
      return a + b;
    else
      return static_cast<C>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  };
  const auto multiply = [](C a, C b) {
    if constexpr (kFloats)
      return a * b;
    else
      return static_cast<C>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  };
  const auto larger = [](C a, C b) {
    if constexpr (kFloats)
      return evaluate(BinaryFn::kMax, a, b);
    else
      return std::max(a, b);
  };
  const auto smaller = [](C a, C b) {
    if constexpr (kFloats)
      return evaluate(BinaryFn::kMin, a, b);
    else
      return std::min(a, b);
  };
  const auto magnitude = [&](C a) { return a < C{0} ? multiply(a, static_cast<C>(-1)) : a; };
  const auto squares = [&] {
    return visit(C{0}, [&](C a, C b) { return add(a, multiply(b, b)); });
  };
  switch (fn) {
    case ReduceFn::kSum:
      return visit(C{0}, add);
    case ReduceFn::kMean: {
      const C sum = visit(C{0}, add);
      if constexpr (kFloats)
        return sum / static_cast<double>(terms);
      else
        return terms == 0 ? C{0} : static_cast<C>(sum / static_cast<C>(terms));
    }
    case ReduceFn::kMax:
      return visit(low, larger);
    case ReduceFn::kMin:
      return visit(high, smaller);
    case ReduceFn::kProd:
      return visit(C{1}, multiply);
    case ReduceFn::kL1:
      return visit(C{0}, [&](C a, C b) { return add(a, magnitude(b)); });
    case ReduceFn::kSumSquare:
      return squares();
    default:
      break;
  }
  if constexpr (kFloats) {
    if (fn == ReduceFn::kL2) return std::sqrt(squares());
    if (fn == ReduceFn::kLogSum) return std::log(visit(0.0, add));
    const double max = visit(low, larger);  // log(sum of exp(x - max)) + max
    const double shift = std::isinf(max) ? 0 : max;
    return std::log(visit(0.0, [shift](double a, double b) { return a + std::exp(b - shift); })) +
           shift;
  }
  return C{0};  // not reached: these functions compute in floats
}

template <class C>
void bounds(DType dtype, C& low, C& high) {
  if constexpr (std::is_same_v<C, double>) {
    high = std::numeric_limits<double>::infinity();
    low = -high;
  } else if constexpr (std::is_same_v<C, std::uint64_t>) {
    low = 0;
    high = std::numeric_limits<std::uint64_t>::max();
  } else {
    const IntegerRange range = integer_range(dtype);
    low = range.low;
    high = range.high;
  }
}

class ReduceTypedKernel final : public Kernel {
 public:
  ReduceTypedKernel(const Plan& plan, const KernelPlan& kernel) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    const auto& op = *node.as<Reduce>();
    fn_ = op.fn;
    x_ = operand_of(plan, kernel.group, node.input(0));
    axes_ = reduce_axes(plan, kernel.group, op.axes, op.keepdims);
    dtype_ = plan.graph.value(node.input(0)).dtype;
    terms_ = count_of(axes_.reduced);
    outputs_ = count_of(axes_.kept);
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t block =
        std::max<std::int64_t>(kTaskElements / std::max<std::int64_t>(terms_, 1), 1);
    const std::int64_t tasks = (outputs_ + block - 1) / block;
    parallel_for(terms_ * outputs_ < kWorthWaking ? nullptr : arguments.pool,
                 static_cast<std::size_t>(tasks), [&](std::size_t task, std::size_t) {
                   const std::int64_t first = static_cast<std::int64_t>(task) * block;
                   visit_storage(dtype_, [&](auto zero) {
                     using T = decltype(zero);
                     using C = typename ComputeType<T>::Type;
                     if (needs_floats(fn_))
                       return run_outputs<T, double>(arguments, first,
                                                     std::min(block, outputs_ - first));
                     run_outputs<T, C>(arguments, first, std::min(block, outputs_ - first));
                   });
                 });
  }

 private:
  template <class T, class C>
  void run_outputs(const KernelArguments& arguments, std::int64_t first, std::int64_t count) const {
    const CopyAxis line = axes_.reduced.empty() ? CopyAxis{} : axes_.reduced.back();
    const std::span<const CopyAxis> outer(axes_.reduced.data(),
                                          axes_.reduced.empty() ? 0 : axes_.reduced.size() - 1);
    const std::int64_t lines = line.extent == 0 ? 0 : count_of(outer);
    C low{}, high{};
    bounds(dtype_, low, high);
    for (std::int64_t i = first; i < first + count; ++i) {
      const CopyOffsets at = offsets_at(axes_.kept, i);
      const auto* x = static_cast<const std::uint8_t*>(x_.data(arguments)) + at.from;
      const auto visit = [&](C value, auto&& f) {
        for (std::int64_t j = 0; j < lines; ++j) {
          const std::uint8_t* from = x + offsets_at(outer, j).from;
          for (std::int64_t k = 0; k < line.extent; ++k)
            value = f(value, convert<C>(*reinterpret_cast<const T*>(from + k * line.from)));
        }
        return value;
      };
      *reinterpret_cast<T*>(static_cast<std::uint8_t*>(arguments.outputs[0]) + at.to) =
          convert<T>(reduce_line(fn_, terms_, low, high, visit));
    }
  }

  Operand x_;
  ReduceFn fn_ = ReduceFn::kSum;
  DType dtype_ = DType::kFloat32;
  ReduceAxes axes_;
  std::int64_t terms_ = 1, outputs_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> reduce_typed(const Plan& plan, const KernelPlan& kernel) {
  return std::make_unique<ReduceTypedKernel>(plan, kernel);
}

}  // namespace braze::cpu
