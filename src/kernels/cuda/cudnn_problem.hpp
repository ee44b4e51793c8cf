// A convolution with its epilogue as cuDNN's graph API is asked for it: plain data, from which
// exec/cuda/cudnn_graph makes descriptors.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "braze/tensor.hpp"

namespace braze::cuda {

/// An address known only on the device: an input or output of the kernel's group, one of its
/// constants, or its workspace.
struct Address {
  enum class Of : std::uint8_t { kNull, kInput, kOutput, kConstant, kWorkspace };
  Of of = Of::kNull;
  std::int32_t index = 0;   // in Group::inputs, Group::outputs or Kernel::constants
  std::int64_t offset = 0;  // bytes
};

/// What cuDNN computes element by element, by its numbers (cudnnPointwiseMode_t).
enum class PointwiseMode : std::int32_t {
  kAdd = 0,
  kMul = 1,
  kDiv = 6,
  kSub = 9,
  kRelu = 100,  // with bounds and a slope: clip and leaky relu too
  kTanh = 101,
  kSigmoid = 102,
  kElu = 103,
  kGelu = 104,
  kSoftplus = 105,
  kSwish = 106,
  kGeluTanh = 107,
};
const char* name_of(PointwiseMode mode);

struct CudnnTensor {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> extents;  // n, c, one to three spatial axes; a filter: k, c, ...
  std::vector<std::int64_t> strides;  // elements
  std::int64_t alignment = 16;        // of its address, bytes
  Address address;
};

/// acc = mode(acc), or acc = mode(acc, operand).
struct CudnnStep {
  PointwiseMode mode = PointwiseMode::kAdd;
  std::optional<CudnnTensor> operand;
  std::optional<double> lower, upper, slope;  // kRelu: bounds, and the slope below the lower one
  std::optional<double> alpha;                // kElu
};

/// y = steps(conv(x, w)), summed in fp32. With `transposed`, x is the gradient of a convolution's
/// result and y that of its input. There are extents[1] of x over those of w groups (transposed: of
/// y).
struct CudnnProblem {
  bool transposed = false;
  bool tf32 = false;  // fp32 products may be rounded to tf32
  std::vector<std::int64_t> pads_begin, pads_end, strides, dilations;  // one per spatial axis
  CudnnTensor x, w, y;
  std::vector<CudnnStep> steps;
};

/// All but the addresses, in one line: equal problems have equal texts.
std::string text_of(const CudnnProblem& problem);

/// Of x, w, y and the steps' operands, in this order.
std::vector<Address> addresses_of(const CudnnProblem& problem);

}  // namespace braze::cuda
