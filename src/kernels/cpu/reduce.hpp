// Reductions: what the files of the family share.
//
//   reduce.cpp        the family's row, and which of these runs
//   reduce_fp32.cpp   vectors of floats, along the reduced axis or across it
//   reduce_typed.cpp  any dtype, element by element
//   arg_reduce.cpp    ArgReduce
#pragma once

#include <memory>
#include <vector>

#include "graph/elements.hpp"
#include "kernels/cpu/copy_kernel.hpp"

namespace braze::cpu {

/// The type in which elements of T are computed.
template <class T>
struct ComputeType {
  using Type = std::int64_t;
};
template <>
struct ComputeType<float> {
  using Type = double;
};
template <>
struct ComputeType<double> {
  using Type = double;
};
template <>
struct ComputeType<Float16> {
  using Type = double;
};
template <>
struct ComputeType<BFloat16> {
  using Type = double;
};
template <>
struct ComputeType<std::uint64_t> {
  using Type = std::uint64_t;
};

/// The axes of a Reduce or ArgReduce, collapsed. Strides in bytes; those of reduced axes have to =
/// 0.
struct ReduceAxes {
  std::vector<CopyAxis> kept;
  std::vector<CopyAxis> reduced;
};
ReduceAxes reduce_axes(const Plan& plan, const Group& group, const Ints& axes, bool keepdims);

/// True if the reduction runs in fp32 vectors: its input is float, and either a reduced or a kept
/// axis is contiguous.
bool reduces_fp32(ReduceFn fn, DType dtype, const ReduceAxes& axes);

std::unique_ptr<Kernel> reduce_fp32(const Plan& plan, const KernelPlan& kernel);
std::unique_ptr<Kernel> reduce_typed(const Plan& plan, const KernelPlan& kernel);
std::unique_ptr<Kernel> arg_reduce(const Plan& plan, const KernelPlan& kernel);

}  // namespace braze::cpu
