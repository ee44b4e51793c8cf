#include "braze/copy.cuh"

namespace braze::device {


}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(256, 1)
copy_24ce2e7b7aa0244c(const __grid_constant__ CopyParameters<1> p) {
  copy<Bits<4>, Bits<4>, 1, u32, 1, true>(p);
}
