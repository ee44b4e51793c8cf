// Run-time parameters of pool.cuh.
#pragma once

#include "braze/divisor.h"
#include "braze/epilogue_parameters.h"

namespace braze::device {

/// Axes are depth, height, width; missing outer ones have extent 1. Strides in elements.
struct PoolParameters {
  const void* x;
  long long x_n, x_channel, x_axis[3];
  int x_row, x_pixel, y_pixel;  // strides, where all offsets in an image fit 31 bits
  int in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
  int counted[3];  // elements from -pad on that an average counts; 0: those of the image only
  Divisor dilations[3];
  Divisor vectors, runs, rows, planes;  // of channels, of a row, of a plane, of an image
  long long threads;                    // vectors of runs of all rows of all images
  OutputParameters y;
  EpilogueParameters e;
};

}  // namespace braze::device
