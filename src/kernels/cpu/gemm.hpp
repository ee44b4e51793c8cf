// Matrix products: what the files of the family share.
//
//   gemm.cpp          the family's row: what it supports, work, build
//   gemm_problem.cpp  a node as a batch of products, with strides
//   gemm_kernel.cpp   packed panels of b times rows of a
//   gemm_vector.cpp   products of a vector: dot products with rows, or sums of scaled rows
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/epilogue.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {

/// y[m, n] = alpha * sum over k of a[m, k] * b[k, n] + beta * c[m, n] for each product of a batch.
/// Strides in elements.
struct GemmProblem {
  std::int64_t rows = 1, columns = 1, depth = 1;
  std::vector<std::int64_t> a_offsets, b_offsets;  // by product; y's are rows * columns apart
  std::int64_t a_row = 0, a_depth = 1;
  std::int64_t b_depth = 0, b_column = 1;
  std::int64_t c_row = 0, c_column = 0;
  float alpha = 1, beta = 1;
  Operand a, b, c;
  int output = 0;

  [[nodiscard]] std::int64_t batch() const { return static_cast<std::int64_t>(a_offsets.size()); }
  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(batch()) * static_cast<double>(rows) *
           static_cast<double>(columns) * static_cast<double>(depth);
  }
};

/// Extents, strides, offsets and factors of a MatMul or Gemm; no operands.
GemmProblem gemm_extents(const Graph& graph, const Node& node);
/// Everything.
GemmProblem gemm_problem(const Plan& plan, const Group& group);

/// What is done to a rectangle of the result when its sums are there: c, then the epilogue.
class GemmFinish {
 public:
  GemmFinish(const Plan& plan, const KernelPlan& kernel, const GemmProblem& problem);

  /// c where it is a constant that varies along columns only, times beta: the sums may start from
  /// it. Taken at most once; empty if c is another one or absent.
  std::vector<float> take_bias(const GemmProblem& problem);
  /// The clamp that the sums' kernel may do before it stores them; the default one if something
  /// comes before it.
  Clamp take_clamp();
  /// `data` is element (row, column) of product `index`; rows are `columns of the problem` apart.
  void apply(const KernelArguments& arguments, const GemmProblem& problem, std::int64_t index,
             std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
             float* data) const noexcept;

 private:
  bool adds_c_ = false;
  TileEpilogue epilogue_;
  Shape shape_;  // of the result
};

std::unique_ptr<Kernel> gemm_panels(const Plan& plan, const KernelPlan& kernel,
                                    GemmProblem problem);
/// Products of one column (b contiguous) or of one row.
std::unique_ptr<Kernel> gemm_vector(const Plan& plan, const KernelPlan& kernel,
                                    GemmProblem problem);

/// A vector times a matrix, whose rows are contiguous.
///   dots: y[r] = alpha * sum over k of a[r * a_row + k] * x[k] for r < rows, k < columns;
///   sums: y[k] = alpha * sum over r of a[r * a_row + k] * x[r].
struct VectorProduct {
  const float* a = nullptr;
  std::int64_t a_row = 0, rows = 0, columns = 0;
  const float* x = nullptr;
  float alpha = 1;
  float* y = nullptr;
};
using VectorProductFn = void (*)(const VectorProduct&);

}  // namespace braze::cpu
