#include "braze/reduce.cuh"

namespace braze::device {


}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(128, 1)
reduce_b51784d0df47d7fa(const __grid_constant__ ReduceParameters p) {
  reduce<half, half, float, MeanOf<float>, 8, 1, 128, false, true, 1, u32>(p);
}
