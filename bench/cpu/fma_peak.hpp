// The roofline of the fp32 benchmarks.
#pragma once

namespace braze::bench {

/// Multiply-adds per second, as two operations each, that one core does now on the instruction set
/// in force: the best of a few bursts, with all accumulators in registers.
double fma_peak();

}  // namespace braze::bench
