// The time of a Winograd convolution, beside that of the direct form. Counted in multiply-adds of a
// vector; the constants were fitted to single layers of 3 to 512 channels and 7 x 7 to 224 x 224
// outputs on AVX-512, and lie within 20 % of them.
#include <algorithm>

#include "kernels/cpu/conv_winograd.hpp"

namespace braze::cpu {
namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

std::int64_t lanes_of(const Device& device) {
  return device.isa == "AVX3" ? 16 : device.isa == "AVX2" ? 8 : 4;
}

/// Vectors that n channels or pixels fill; AVX-512 has inner loops for a half one.
double vectors(std::int64_t n, std::int64_t lanes) {
  return lanes == 16 ? number(ceil_div(2 * n, lanes)) / 2 : number(ceil_div(n, lanes));
}

double us_of(double operations, std::int64_t lanes, const Device& device) {
  return operations * 2 * number(lanes) / device.flops_fp32 * 1e6;
}

/// Reading the filter, once. One that shares the last-level cache with too many others comes from
/// memory.
double filter_us(const WinogradProblem& problem, std::int64_t taps, const Device& device) {
  const double own = 4 * number(taps * problem.channels * problem.outputs);
  const double all = std::max(own, number(taps) / 9 * problem.constant_bytes);
  return own / (all < device.cache_bytes ? 0.44 * device.onchip_bandwidth : device.dram_bandwidth) *
         1e6;
}

/// What is read beside arithmetic hides behind it, or it behind that, but for a fifth.
double beside(double arithmetic_us, double read_us) {
  return std::max(arithmetic_us, read_us) + std::min(arithmetic_us, read_us) / 5;
}

/// Images that do not stay in the second-level cache wait for memory; the direct form, which
/// multiplies more meanwhile, for a third of the time.
double image_us(const WinogradProblem& problem, const Device& device) {
  const double bytes = 4 * number(problem.batch * problem.height * problem.width) *
                       number(problem.channels + problem.outputs);
  return bytes < device.onchip_bytes * device.units ? 0 : bytes / device.dram_bandwidth * 1e6;
}

}  // namespace

double winograd_us(const WinogradProblem& problem, int m, const Device& device) {
  const std::int64_t lanes = lanes_of(device);
  const std::int64_t points = static_cast<std::int64_t>(m + 2) * (m + 2);
  const double tiles =
      number(problem.batch * ceil_div(problem.height, m) * ceil_div(problem.width, m));
  const double in = number(ceil_div(problem.channels, lanes));
  const double out = vectors(problem.outputs, lanes);
  const double transform = m == 4 ? 225 : 80;  // of a vector of channels of a tile
  const double store = 2;                      // and start of a sum
  const double copy = (m == 4 ? 80 : 30) * number(problem.copied_images) / 2;
  const double operations = tiles * (number(points) * out * (number(problem.channels) + store) +
                                     (in + out) * (transform + copy));
  return beside(us_of(operations, lanes, device), filter_us(problem, points, device)) +
         image_us(problem, device) * (1 + 0.35 * problem.copied_images);
}

double winograd_direct_us(const WinogradProblem& problem, const Device& device) {
  const std::int64_t lanes = lanes_of(device);
  const double sum = 9 * number(problem.channels);
  const double rows = number(problem.batch * problem.height);
  const double by_channels = number(problem.width) * vectors(problem.outputs, lanes);
  const double by_pixels = number(ceil_div(problem.width, lanes) * problem.outputs);
  const double tile = 28;  // vectors; starting and storing one takes 60
  const double operations = rows * std::min(by_channels, by_pixels) * (sum + 60 / tile) / 0.93;
  return beside(us_of(operations, lanes, device), filter_us(problem, 9, device)) +
         image_us(problem, device) / 3;
}

}  // namespace braze::cpu
