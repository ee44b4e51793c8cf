// What families share when they write a kernel's source and parameters.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/cuda/device/epilogue_parameters.h"
#include "kernels/cuda/kernel.hpp"

namespace braze::cuda {

/// "half", "bfloat16", "float" in device code; kInternal for what has no such name.
const char* device_type(DType dtype);
/// The name of any dtype's elements in device code: "half", "i64", "bool8".
const char* element_type(DType dtype);

/// Calls of the float functions of math.cuh. `value` makes the text of a run-time parameter.
std::string call_of(const Unary& op, const std::string& x,
                    const std::function<std::string(double)>& value);
std::string call_of(BinaryFn fn, const std::string& a, const std::string& b);

/// The value in memory behind an operand of a group's member: itself, or what a Cast that is done
/// while loading reads. Its dtype and placement are those of the bytes.
ValueId loaded_value(const Plan& plan, const Group& group, ValueId id);

/// The address of a value that the kernel reads: an input of its group, or a constant, which is
/// added to kernel.constants as it is.
Address address_of(const Plan& plan, const Group& group, ValueId id, Kernel& kernel);

/// Adds bytes that are uploaded once.
Address add_constant(Kernel& kernel, std::vector<std::byte> bytes);
/// The elements of `tensor` as fp32, then zeros up to a multiple of `multiple` of them.
Address add_floats(Kernel& kernel, const Tensor& tensor, std::int64_t multiple);

/// May `vector` adjacent channels of a value be read or written at once? True if it lies
/// channels-last, every pixel begins at a multiple of vector elements or 16 bytes, and channels are
/// a multiple of `vector`.
bool takes_vectors(const Plan& plan, ValueId id, int vector);

/// Strides and extents of a kernel's result [n, c, spatial...]; of rank 2, rows are pixels of one
/// image.
device::OutputParameters output_parameters(const Plan& plan, ValueId result);

/// An operand of an epilogue that the kernel brings to shared memory by itself: as large as the
/// result, channels-last, every pixel at a multiple of 16 bytes.
struct StagedOperand {
  Address address;
  DType dtype = DType::kFloat16;
  std::int64_t pitch = 0;  // elements from pixel to pixel
};

/// The program on an accumulator, as source and parameters.
class EpilogueEmitter {
 public:
  /// For a kernel that applies its epilogue to `vector` adjacent channels at a time.
  EpilogueEmitter(const Plan& plan, const KernelPlan& kernel, Kernel& to, int vector);
  /// Of one of several members.
  EpilogueEmitter(const Plan& plan, const KernelPlan& kernel, const Group::Member& member,
                  Kernel& to, int vector);

  /// The first operand that can be one is read by `load_staged<type, row bytes, V>(x, at)` instead
  /// of from global memory; `row_bytes` are those of a pixel in shared memory, by its dtype, whose
  /// elements have at most `most_bytes`.
  void stage_operand(std::function<int(DType)> row_bytes, std::int64_t most_bytes = 4) {
    staged_row_ = std::move(row_bytes);
    most_staged_bytes_ = most_bytes;
  }
  [[nodiscard]] const std::optional<StagedOperand>& staged() const { return staged_; }

  /// An operand that the kernel has on chip: the statement `load` names V of its channels x.
  void keep_on_chip(ValueId id, std::string load) { on_chip_[id] = std::move(load); }

  /// acc = acc + bias[channel]
  void add_bias(ValueId bias);
  /// acc = acc + factor * operand, which broadcasts to the result
  void add_scaled(ValueId operand, double factor);
  /// All steps of a member's epilogue.
  void add_steps(const Group::Member& member);

  /// "struct Epilogue { ... };"
  [[nodiscard]] std::string source(std::string_view name = "Epilogue") const;
  [[nodiscard]] const device::EpilogueParameters& parameters() const { return parameters_; }
  /// Points the operands of `block`, which is part of the parameters being made.
  void point(Parameters& parameters, device::EpilogueParameters& block) const;
  /// "add(channel) relu", for names of kernels.
  [[nodiscard]] const std::string& label() const { return label_; }

 private:
  std::string add_value(double value);
  std::string add_operand(ValueId id, const Shape& result);
  std::optional<StagedOperand> stageable(ValueId id, const Shape& result);
  std::string add_channels();
  void add_line(const std::string& expression, const std::string& load);

  const Plan& plan_;
  const KernelPlan& kernel_;
  Kernel& to_;
  int vector_;
  Shape result_;
  std::string body_;
  std::string label_;
  device::EpilogueParameters parameters_{};
  std::vector<Address> operands_;
  std::vector<std::size_t> constants_;  // operands that are constants along channels
  int values_ = 0;
  std::function<int(DType)> staged_row_;
  std::int64_t most_staged_bytes_ = 4;
  std::optional<StagedOperand> staged_;
  std::map<ValueId, std::string> on_chip_;
};

/// A translation unit: the headers, then `body`, then the entry that calls `call` with its
/// parameters p. The entry's name is the family's and a hash of the source, so equal sources have
/// equal names.
void emit(Kernel& kernel, std::string_view family, const std::vector<std::string>& headers,
          const std::string& body, std::string_view parameters, const std::string& call,
          int threads, int blocks_per_sm = 1);

}  // namespace braze::cuda
