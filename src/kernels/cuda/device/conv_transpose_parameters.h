// Run-time parameters of conv_transpose.cuh and conv_transpose_mma.cuh.
#pragma once

#include "braze/epilogue_parameters.h"

namespace braze::device {

/// Axes are depth, height, width; missing outer ones have extent 1. Strides in elements. Weights
/// lie [group][tap][input channel][output channel], `w_channel` from input channel to the next,
/// zeros behind a group's last output channel.
struct ConvTransposeParameters {
  const void* x;
  const void* w;
  long long x_n, x_channel, x_axis[3], w_group, w_tap, w_channel;
  int in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
  int groups, inputs, outputs;  // channels of a group
  int phases, runs;             // along width: offsets of outputs, runs of P outputs of a phase
  long long threads;
  OutputParameters y;
  EpilogueParameters e;
};

/// Outputs first + q * stride, q < count, of each axis, and their taps.
struct TransposePhase {
  int first[3], count[3], tap_begin, tap_end;
};
/// A tap of a phase reads input q + delta.
struct TransposeTap {
  int delta[3], unused;
};

/// As above, with channels of x beside each other; weights lie [tap][output channel][input channel]
/// in the order of the phases' taps, zeros behind the last channels of both.
struct ConvTransposeMmaParameters {
  const void* x;
  const void* w;
  const TransposePhase* phase;
  const TransposeTap* tap;
  long long x_n, x_axis[3];
  int in[3], out[3], stride[3];
  int images, inputs;
  int depth, padded_outputs;  // channels in the weights
  int phases, column_tiles;
  OutputParameters y;
  EpilogueParameters e;
};

}  // namespace braze::device
