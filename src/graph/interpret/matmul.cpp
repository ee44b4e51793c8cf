// MatMul, Gemm.
#include "graph/interpret/call.hpp"
#include "graph/shape.hpp"

namespace braze::graph {
namespace {

/// c [m,n] += a [m,k] * b [k,n], dense.
template <class C>
void multiply(const C* a, const C* b, C* c, std::int64_t m, std::int64_t k, std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t t = 0; t < k; ++t) {
      const C factor = a[i * k + t];
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += factor * b[t * n + j];
    }
  }
}

template <class C>
std::vector<C> transposed(const std::vector<C>& values, std::int64_t rows, std::int64_t columns) {
  std::vector<C> result;
  result.reserve(values.size());
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i)
      result.push_back(values[static_cast<std::size_t>(i * columns + j)]);
  }
  return result;
}

/// As visit_compute, but all integers as unsigned: sums and products wrap to the same bits.
template <class F>
void visit_ring(DType dtype, F&& f) {
  if (is_float(dtype)) {
    f(double{});
  } else {
    f(std::uint64_t{});
  }
}

}  // namespace

void run_op(const MatMul& /*op*/, Call& call) {
  Shape a_shape = call.shape(0);
  Shape b_shape = call.shape(1);
  if (a_shape.size() == 1) a_shape.insert(a_shape.begin(), 1);
  if (b_shape.size() == 1) b_shape.push_back(1);
  const std::int64_t m = a_shape[a_shape.size() - 2];
  const std::int64_t k = a_shape.back();
  const std::int64_t n = b_shape.back();
  a_shape.resize(a_shape.size() - 2);
  b_shape.resize(b_shape.size() - 2);
  const Shape batch = broadcast_shape(a_shape, b_shape, call.node().where());
  const std::array strides = {broadcast_strides(a_shape, batch), broadcast_strides(b_shape, batch)};
  visit_ring(call.input(0).dtype(), [&](auto zero) {
    using C = decltype(zero);
    const std::vector<C> a = call.load<C>(0);
    const std::vector<C> b = call.load<C>(1);
    std::vector<C> c(static_cast<std::size_t>(call.output().count()), C{});
    C* matrix = c.data();
    for_each_element(batch, strides, [&](const auto& at) {
      multiply(a.data() + at[0] * m * k, b.data() + at[1] * k * n, matrix, m, k, n);
      matrix += m * n;
    });
    call.store(c);
  });
}

void run_op(const Gemm& op, Call& call) {
  const Shape& shape = call.output().shape();
  const Shape& a_shape = call.shape(0);
  const Shape& b_shape = call.shape(1);
  const std::int64_t k = a_shape[op.trans_a ? 0 : 1];
  visit_ring(call.input(0).dtype(), [&](auto zero) {
    using C = decltype(zero);
    std::vector<C> a = call.load<C>(0);
    std::vector<C> b = call.load<C>(1);
    if (op.trans_a) a = transposed(a, a_shape[0], a_shape[1]);
    if (op.trans_b) b = transposed(b, b_shape[0], b_shape[1]);
    std::vector<C> y(static_cast<std::size_t>(element_count(shape)), C{});
    multiply(a.data(), b.data(), y.data(), shape[0], k, shape[1]);
    const C alpha = convert<C>(op.alpha);
    for (C& value : y) value *= alpha;
    if (call.has(2)) {
      const C beta = convert<C>(op.beta);
      const std::vector<C> c = call.load<C>(2);
      std::size_t i = 0;
      for_each_element(
          shape, std::array{broadcast_strides(call.shape(2), shape)},
          [&](const auto& at) { y[i++] += beta * c[static_cast<std::size_t>(at[0])]; });
    }
    call.store(y);
  });
}

}  // namespace braze::graph
