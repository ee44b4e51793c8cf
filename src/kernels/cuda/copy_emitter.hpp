// A kernel made of box-to-box copies.
#pragma once

#include <map>
#include <vector>

#include "kernels/cpu/copy_kernel.hpp"
#include "kernels/cuda/device/copy_parameters.h"
#include "kernels/cuda/emit.hpp"

namespace braze::cuda {

/// Where the elements of a value lie, in bytes, as cpu::view_of; of an operand, those of what is
/// loaded for it.
cpu::View loaded_view(const Plan& plan, const Group& group, ValueId operand);

/// The box of a copy between two views of one shape.
std::vector<cpu::CopyAxis> box_of(const cpu::View& from, const cpu::View& to);

/// "Bits<8>": elements of that many bytes that are moved as they are.
std::string bits_type(std::int64_t bytes);

/// The widest elements (bytes, at most 16) that axes can be copied in, given that the innermost
/// axis lies together in both boxes; `bytes` where it does not.
std::int64_t widest(std::int64_t bytes, std::span<const cpu::CopyAxis> axes, std::int64_t from,
                    std::int64_t to);

class CopyEmitter {
 public:
  CopyEmitter(const Plan& plan, const KernelPlan& kernel) : plan_(plan), kernel_(kernel) {}

  /// Copies a box from an operand to a stored value. Offsets and strides in bytes.
  void add(ValueId from, ValueId to, std::vector<cpu::CopyAxis> axes, std::int64_t from_offset = 0,
           std::int64_t to_offset = 0);

  Kernel build();

 private:
  struct Piece {
    ValueId from_value = kNoValue;  // what is loaded
    Address from, to;
    std::int64_t from_at = 0, to_at = 0;  // bytes from a well aligned address
    std::vector<cpu::CopyAxis> axes;
    bool tiled = false;
  };
  void choose_tiles(Piece& piece) const;
  Address address(ValueId from);

  const Plan& plan_;
  const KernelPlan& kernel_;
  Kernel result_;
  std::vector<Piece> pieces_;
  std::map<ValueId, Address> addresses_;
  DType from_ = DType::kFloat32, to_ = DType::kFloat32;
};

}  // namespace braze::cuda
