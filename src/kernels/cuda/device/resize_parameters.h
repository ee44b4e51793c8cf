// Run-time parameters of resize.cuh.
#pragma once

#include "braze/epilogue_parameters.h"

namespace braze::device {

/// Output element o of an axis is the sum of weight[o * taps + t] times input element
/// index[o * taps + t], t < count[o]; of no taps, it lies outside of the input.
struct ResizeAxis {
  const int* count;
  const int* index;
  const float* weight;
  long long x;  // stride
  int out, taps;
};

struct ResizeParameters {
  const void* x;
  long long x_n, x_channel;
  ResizeAxis axis[3];  // depth, height, width
  long long threads;   // vectors of channels, of all pixels of all images
  float extrapolation;
  OutputParameters y;
};

}  // namespace braze::device
