// A kernel made of box-to-box copies: every family that only moves elements builds one of these.
#pragma once

#include <optional>
#include <vector>

#include "kernels/cpu/group.hpp"
#include "kernels/cpu/strided_copy.hpp"

namespace braze::cpu {

/// Where the elements of a value lie: one stride per logical axis, in bytes.
struct View {
  std::int64_t element_bytes = 0;
  Shape shape;
  std::vector<std::int64_t> strides;
};

/// The view of a value in its place in the plan; of a constant, row-major.
View view_of(const Plan& plan, ValueId id);

/// A row-major view.
View dense_view(DType dtype, Shape shape);

/// The box that a Transpose, DepthToSpace, SpaceToDepth or ChannelShuffle copies.
std::vector<CopyAxis> permutation_axes(const Node& node, const View& from, const View& to);

/// The box of a copy that keeps the row-major order of elements; nullopt if the axes of the views
/// have nothing in common.
std::optional<std::vector<CopyAxis>> reshape_axes(const View& from, const View& to);

class CopyKernel final : public Kernel {
 public:
  /// Adds a copy from an operand into output `output` of the kernel.
  void add(Operand from, int output, StridedCopy copy);
  /// Adds a copy between two views of one shape. Offsets in bytes.
  void add(Operand from, const View& from_view, int output, const View& to_view,
           std::int64_t from_offset = 0, std::int64_t to_offset = 0);

  void run(const KernelArguments& arguments) const noexcept override;

 private:
  struct Piece {
    Operand from;
    int output = 0;
    StridedCopy copy;
    std::int64_t first_task = 0;
  };
  std::vector<Piece> pieces_;
  std::int64_t tasks_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace braze::cpu
