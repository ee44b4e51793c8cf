// Run-time parameters of an epilogue: read by the host, which fills them in, and by the kernels.
#pragma once

namespace braze::device {

inline constexpr int kMaxOperands = 6;
inline constexpr int kMaxValues = 16;

/// A tensor that broadcasts against the result: element (n, pixel, channel) is at
/// data[n * stride_n + pixel * stride_pixel + channel * stride_channel].
struct EpilogueOperand {
  const void* data;
  long long stride_n, stride_pixel, stride_channel;
};

struct EpilogueParameters {
  EpilogueOperand operand[kMaxOperands];
  float value[kMaxValues];  // bounds and slopes of the steps, in order
};

/// Where the result of a kernel goes: element (n, pixel, channel) as above. Channels from
/// `channels` to `padded` are written as zeros.
struct OutputParameters {
  void* data;
  long long stride_n, stride_pixel, stride_channel;
  int n, pixels, channels, padded;
};

}  // namespace braze::device
