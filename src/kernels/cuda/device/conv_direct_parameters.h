// Run-time parameters of conv_direct.cuh.
#pragma once

#include "braze/epilogue_parameters.h"

namespace braze::device {

/// Axes are depth, height, width; missing outer ones have extent 1. Strides in elements, channels
/// counted within a group.
struct ConvDirectParameters {
  const void* x;
  const void* w;
  long long x_n, x_channel, x_axis[3];
  long long w_output, w_channel, w_tap;
  int in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
  int groups, channels, outputs;
  long long threads;  // vectors of output channels, of all pixels of all images
  OutputParameters y;
  EpilogueParameters e;
};

}  // namespace braze::device
