// The error of a Winograd convolution, as a fraction of the output's range.
//
// Rounding errors are taken as independent, relative to what is rounded, of variance u^2 / 3 with
// u = 2^-24. For inputs of unit variance that are independent of each other, in a sum over C
// channels they add up to a variance of u^2 (C / 6 + 4) times the sum's: C / 6 from its partial
// sums, 4 from the transforms. An output (i, j) is the sum over points of a_ip a_jq M_pq, so that
//   error^2 = u^2 (C / 6 + 4) sum over p, q, c of a_ip^2 a_jq^2 |b_p|^2 |b_q|^2 U_pq,c^2,
// with a row b_p of B^T and the transformed filter U of channel c; its own variance is sum over c
// of |g_c|^2. Largest error and largest output are as many standard deviations away from zero.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/conv_winograd.hpp"

namespace braze::cpu {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kMargin = 2;  // for what the model leaves out

using Taps = std::array<double, 9>;

/// Products g_r g_s of taps, summed over channels.
using Gram = std::array<Taps, 9>;

Gram gram_of(const float* filters, std::int64_t channels) {
  Gram sums{};
  for (std::int64_t c = 0; c < channels; ++c, filters += 9) {
    for (std::size_t r = 0; r < 9; ++r) {
      const double g = static_cast<double>(filters[r]);
      for (std::size_t s = r; s < 9; ++s) sums[r][s] += g * static_cast<double>(filters[s]);
    }
  }
  for (std::size_t r = 0; r < 9; ++r) {
    for (std::size_t s = 0; s < r; ++s) sums[r][s] = sums[s][r];
  }
  return sums;
}

/// Axis i of the weights of products g_r g_s in error^2: sum over p of a_ip^2 |b_p|^2 G_pr G_ps.
using AxisForm = std::array<std::array<double, 3>, 3>;

AxisForm axis_form(const WinogradMatrices& f, std::size_t i) {
  AxisForm form{};
  for (std::size_t p = 0; p < kWinogradMaxTile; ++p) {
    double norm = 0;
    for (const double b : f.b[p]) norm += b * b;
    const double weight = f.a[i][p] * f.a[i][p] * norm;
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t s = 0; s < 3; ++s) form[r][s] += weight * f.g[p][r] * f.g[p][s];
    }
  }
  return form;
}

double apply(const AxisForm& rows, const AxisForm& columns, const Gram& gram) {
  double sum = 0;
  for (std::size_t r = 0; r < 9; ++r) {
    for (std::size_t s = 0; s < 9; ++s)
      sum += rows[r / 3][s / 3] * columns[r % 3][s % 3] * gram[r][s];
  }
  return sum;
}

/// Largest |U| of a filter whose taps are at most 1 in magnitude.
double growth(const WinogradMatrices& f) {
  double most = 0;
  for (const auto& row : f.g)
    most = std::max(most, std::fabs(row[0]) + std::fabs(row[1]) + std::fabs(row[2]));
  return most * most;
}

}  // namespace

double winograd_error(const float* weights, std::int64_t outputs, std::int64_t channels, int m) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const WinogradMatrices& f = winograd_matrices(m);
  const double most = static_cast<double>(std::numeric_limits<float>::max()) / growth(f);
  const std::int64_t count = outputs * channels * 9;
  if (!std::all_of(weights, weights + count,
                   [most](float w) { return std::fabs(static_cast<double>(w)) <= most; }))
    return kInfinity;

  std::array<AxisForm, 4> forms{};
  const auto axes = static_cast<std::size_t>(m);
  for (std::size_t i = 0; i < axes; ++i) forms[i] = axis_form(f, i);
  double error = 0;  // variances
  double range = 0;
  for (std::int64_t k = 0; k < outputs; ++k) {
    const Gram gram = gram_of(weights + k * channels * 9, channels);
    double output = 0;
    for (std::size_t r = 0; r < 9; ++r) output += gram[r][r];
    range = std::max(range, output);
    for (std::size_t i = 0; i < axes; ++i) {
      for (std::size_t j = 0; j < axes; ++j)
        error = std::max(error, apply(forms[i], forms[j], gram));
    }
  }
  if (range == 0) return 0;
  const double roundings = static_cast<double>(channels) / 6 + 4;
  return kMargin * kUnit * std::sqrt(roundings * error / range);
}

}  // namespace braze::cpu
