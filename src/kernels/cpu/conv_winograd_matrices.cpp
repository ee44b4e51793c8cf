// Matrices of F(2, 3), points 0, 1, -1 and infinity, and of F(4, 3), points 0, +-sqrt(1/2),
// +-sqrt(2) and infinity.
#include "kernels/cpu/conv_winograd.hpp"

namespace braze::cpu {
namespace {

WinogradMatrices two() {
  WinogradMatrices f{.m = 2, .t = 4};
  f.b[0] = {1, 0, -1, 0};
  f.b[1] = {0, 1, 1, 0};
  f.b[2] = {0, -1, 1, 0};
  f.b[3] = {0, -1, 0, 1};
  f.g[0] = {1, 0, 0};
  f.g[1] = {0.5, 0.5, 0.5};
  f.g[2] = {0.5, -0.5, 0.5};
  f.g[3] = {0, 0, 1};
  f.a[0] = {1, 1, 1, 0};
  f.a[1] = {0, 1, -1, 1};
  return f;
}

// With N(x) = x (x^2 - a^2) (x^2 - b^2), row of point z: B^T has the coefficients of N(x) / (x -
// z), G the powers of z over N'(z), A^T its powers; infinity has N, the last tap, the last output.
WinogradMatrices four() {
  constexpr double kA = 0.70710678118654752440;  // a = sqrt(1/2), b = sqrt(2): a b = 1
  constexpr double kB = 1.41421356237309504880;
  constexpr double kA2 = 0.5;
  constexpr double kB2 = 2;
  WinogradMatrices f{.m = 4, .t = 6};
  f.b[0] = {1, 0, -(kA2 + kB2), 0, 1, 0};
  f.b[1] = {0, -kA * kB2, -kB2, kA, 1, 0};
  f.b[2] = {0, kA * kB2, -kB2, -kA, 1, 0};
  f.b[3] = {0, -kB * kA2, -kA2, kB, 1, 0};
  f.b[4] = {0, kB * kA2, -kA2, -kB, 1, 0};
  f.b[5] = {0, 1, 0, -(kA2 + kB2), 0, 1};
  constexpr double kNa = 2 * kA2 * (kA2 - kB2);
  constexpr double kNb = 2 * kB2 * (kB2 - kA2);
  f.g[0] = {1, 0, 0};
  f.g[1] = {1 / kNa, kA / kNa, kA2 / kNa};
  f.g[2] = {1 / kNa, -kA / kNa, kA2 / kNa};
  f.g[3] = {1 / kNb, kB / kNb, kB2 / kNb};
  f.g[4] = {1 / kNb, -kB / kNb, kB2 / kNb};
  f.g[5] = {0, 0, 1};
  f.a[0] = {1, 1, 1, 1, 1, 0};
  f.a[1] = {0, kA, -kA, kB, -kB, 0};
  f.a[2] = {0, kA2, kA2, kB2, kB2, 0};
  f.a[3] = {0, kA * kA2, -kA * kA2, kB * kB2, -kB * kB2, 1};
  return f;
}

}  // namespace

const WinogradMatrices& winograd_matrices(int m) {
  static const WinogradMatrices of_two = two();
  static const WinogradMatrices of_four = four();
  return m == 2 ? of_two : of_four;
}

void winograd_filter(const WinogradMatrices& f, const float* filter, double* u) {
  for (std::size_t p = 0; p < static_cast<std::size_t>(f.t); ++p) {
    double row[3];  // row p of G g
    for (std::size_t j = 0; j < 3; ++j) {
      row[j] = f.g[p][0] * static_cast<double>(filter[j]) +
               f.g[p][1] * static_cast<double>(filter[3 + j]) +
               f.g[p][2] * static_cast<double>(filter[6 + j]);
    }
    for (std::size_t q = 0; q < static_cast<std::size_t>(f.t); ++q)
      *u++ = f.g[q][0] * row[0] + f.g[q][1] * row[1] + f.g[q][2] * row[2];
  }
}

}  // namespace braze::cpu
