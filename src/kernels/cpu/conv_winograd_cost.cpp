// The time of a Winograd convolution, beside that of the direct form.
#include <algorithm>

#include "kernels/cpu/conv_winograd.hpp"

namespace braze::cpu {

double winograd_us(const WinogradProblem& problem, int m, const Device& device) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const std::int64_t t = m + 2;
  const double tiles =
      number(problem.batch * ceil_div(problem.height, m) * ceil_div(problem.width, m));
  const double flops = 2 * number(t * t) * tiles * number(problem.channels * problem.outputs);
  return flops / device.flops_fp32 * 1e6 / 0.7;
}

double winograd_direct_us(const WinogradProblem& problem, const Device& device) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double flops = 18 * number(problem.batch * problem.height * problem.width) *
                       number(problem.channels * problem.outputs);
  return flops / device.flops_fp32 * 1e6 / 0.9;
}

}  // namespace braze::cpu
