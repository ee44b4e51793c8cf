#include <algorithm>
#include <numeric>

#include "graph/window.hpp"
#include "kernels/cpu/conv_transpose.hpp"

namespace braze::cpu {

TransposePhase::Segment TransposePhase::terms(std::int64_t q, std::int64_t in) const {
  const std::int64_t start = q - pad;  // 0 <= start + j * dilation < in
  const auto most = static_cast<std::int64_t>(taps.size());
  const std::int64_t low = start < 0 ? std::min(most, ceil_div(-start, dilation)) : 0;
  const std::int64_t high = start < in ? std::min(most, ceil_div(in - start, dilation)) : 0;
  return {q, q + 1, low, std::max<std::int64_t>(0, high - low)};
}

TransposeAxis::TransposeAxis(std::int64_t inputs, std::int64_t outputs, std::int64_t taps,
                             std::int64_t step, std::int64_t dilation, std::int64_t pad)
    : in(inputs), out(outputs), kernel(taps), stride(step) {
  for (std::int64_t p = 0; p < std::min(stride, out); ++p) {
    TransposePhase phase;
    phase.first = p;
    phase.count = ceil_div(out - p, stride);
    phase.dilation = dilation / std::gcd(stride, dilation);
    // Term by term the input index grows, so the tap falls: i = q + (p + pad - t * dilation) /
    // stride.
    for (std::int64_t t = kernel; t-- > 0;) {
      const std::int64_t distance = p + pad - t * dilation;
      if (distance % stride != 0) continue;
      if (phase.taps.empty()) phase.pad = -distance / stride;
      phase.taps.push_back(t);
    }
    for (std::int64_t q = 0; q < phase.count; ++q) {
      const TransposePhase::Segment next = phase.terms(q, in);
      if (!phase.segments.empty() && phase.segments.back().low == next.low &&
          phase.segments.back().terms == next.terms) {
        phase.segments.back().end = next.end;
      } else {
        phase.segments.push_back(next);
      }
    }
    phases.push_back(std::move(phase));
  }
}

}  // namespace braze::cpu
