// MatMul (batched, broadcast, with vectors) and Gemm, fp32. A constant b is packed when the kernel
// is built. Takes any epilogue: see GemmFinish::apply for how a result's axes become channels and
// pixels.
#include "kernels/cpu/gemm.hpp"

#include <algorithm>

#include "kernels/cpu/families.hpp"

namespace braze::cpu {
namespace {

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.kind() != OpKind::kMatMul && node.kind() != OpKind::kGemm)
    return Support::no("operator", "runs MatMul and Gemm only");
  const DType dtype = graph.value(node.input(0)).dtype;
  if (dtype != DType::kFloat32)
    return Support::no("dtype", std::string("multiplies float, not ") + to_string(dtype));
  return Support::yes();
}

double flops_of(const Graph& graph, const Node& node) {
  const Shape& a = graph.value(node.input(0)).shape;
  const auto* gemm = node.as<Gemm>();
  const std::int64_t depth = gemm != nullptr && gemm->trans_a ? a[0] : a.back();
  return 2.0 * static_cast<double>(depth) *
         static_cast<double>(element_count(graph.value(node.output()).shape));
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = anchor_of(graph, group);
  return streaming_work(graph, group, flops_of(graph, node), 0.8);
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  GemmProblem problem = gemm_problem(plan, kernel.group);
  // A constant matrix is read as fast in panels.
  const bool one_column = problem.columns == 1 && problem.b_depth == 1;
  const bool one_row = problem.rows == 1 && !problem.b.constant.defined();
  if (problem.a_depth == 1 && (one_column || one_row))
    return gemm_vector(plan, kernel, std::move(problem));
  return gemm_panels(plan, kernel, std::move(problem));
}

}  // namespace

Row gemm() {
  KernelFamily family;
  family.name = "gemm";
  family.backend = "cpu";
  family.layouts = LayoutRule::kModelOnly;
  family.epilogue = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
