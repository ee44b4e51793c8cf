// Run-time parameters of conv_depthwise.cuh.
#pragma once

#include "braze/divisor.h"
#include "braze/epilogue_parameters.h"

namespace braze::device {

/// Axes are depth, height, width; missing outer ones have extent 1. Strides in elements. Weights
/// lie [tap][output channel], `w_tap` of them from tap to tap, zeros behind the last channel.
struct ConvDepthwiseParameters {
  const void* x;
  const void* w;
  const float* bias;  // of whole vectors of channels; null: none
  long long x_n, x_channel, x_axis[3];
  int x_row, x_pixel, y_pixel;  // strides, where all offsets in an image fit 31 bits
  int w_tap;
  int in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
  int multiplier;                         // output channels of an input channel
  int rows;                               // of a strip
  Divisor vectors, runs, strips, planes;  // of channels, of a row, of an image, of depth
  long long threads;                      // vectors of runs of strips of all images
  OutputParameters y;
  EpilogueParameters e;
};

}  // namespace braze::device
