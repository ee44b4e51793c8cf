#include "braze/resize.cuh"

namespace braze::device {


}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(64, 1)
resize_bb1eeb249c61c793(const __grid_constant__ ResizeParameters p) {
  resize<half, half, 8, Store::kVector, false, u32, 64>(p);
}
