#include "kernels_cuda/one_kernel.hpp"

namespace braze::cuda::testing {
namespace {

Resize resized(const Shape& from, const Shape& to) {
  Resize op;
  op.sizes = to;
  for (std::size_t axis = 0; axis < from.size(); ++axis)
    op.scales.push_back(static_cast<double>(to[axis]) / static_cast<double>(from[axis]));
  op.roi = std::vector<double>(from.size(), 0.1);
  op.roi.insert(op.roi.end(), from.size(), 0.9);
  for (std::size_t axis = 0; axis < 2; ++axis) op.roi[axis] = 0, op.roi[from.size() + axis] = 1;
  return op;
}

TEST(CudaResize, EveryModeAndCoordinate) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  const Shape from = {2, 16, 5, 7}, to = {2, 16, 9, 5};
  for (const ResizeMode mode : {ResizeMode::kNearest, ResizeMode::kLinear, ResizeMode::kCubic}) {
    for (int coordinate = 0; coordinate <= static_cast<int>(CoordinateMode::kTfCropAndResize);
         ++coordinate) {
      Resize op = resized(from, to);
      op.mode = mode;
      op.coordinate = static_cast<CoordinateMode>(coordinate);
      op.nearest = static_cast<NearestMode>(seed % 4);
      op.extrapolation = 0.5;
      const DType dtype = seed % 2 == 0 ? DType::kFloat16 : DType::kFloat32;
      check_node(resize(), OneNode(op, {random_floats(dtype, from, seed)}), rounded(dtype, 2e-6), 2,
                 seed);
      ++seed;
      if (HasFailure()) return;
    }
  }
}

TEST(CudaResize, OtherRanksAndTypes) {
  BRAZE_NEEDS_EMULATOR();
  check_node(resize(), OneNode(resized({2, 5, 6}, {2, 5, 12}),
                               {counting_tensor(DType::kUInt8, {2, 5, 6}, 1)}));
  Resize op = resized({1, 8, 3, 4, 5}, {1, 8, 6, 4, 10});
  check_node(resize(), OneNode(op, {counting_tensor(DType::kFloat32, {1, 8, 3, 4, 5}, 1)}));
  op.mode = ResizeMode::kLinear;
  check_node(resize(), OneNode(op, {random_floats(DType::kFloat32, {1, 8, 3, 4, 5}, 1)}),
             rounded(DType::kFloat32));
}

}  // namespace
}  // namespace braze::cuda::testing
