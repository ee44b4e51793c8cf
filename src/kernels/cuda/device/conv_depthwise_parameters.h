// Run-time parameters of conv_depthwise.cuh.
#pragma once

#include "braze/epilogue_parameters.h"

namespace braze::device {

/// Axes are depth, height, width; missing outer ones have extent 1. Strides in elements. Weights
/// lie [tap][output channel], `w_tap` of them from tap to tap, zeros behind the last channel.
struct ConvDepthwiseParameters {
  const void* x;
  const void* w;
  long long x_n, x_channel, x_axis[3], w_tap;
  int in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
  int multiplier;     // output channels of an input channel
  long long threads;  // vectors of channels of runs of pixels along a row
  OutputParameters y;
  EpilogueParameters e;
};

}  // namespace braze::device
