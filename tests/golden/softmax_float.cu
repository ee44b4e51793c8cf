#include "braze/softmax.cuh"

namespace braze::device {


}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(256, 1)
softmax_df1156313a24c2ff(const __grid_constant__ LinesParameters p) {
  softmax<float, float, false, 8, 32, true>(p);
}
