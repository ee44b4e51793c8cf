#include "braze/copy.cuh"

namespace braze::device {


}  // namespace braze::device

using namespace braze::device;

extern "C" __global__ void __launch_bounds__(256, 1)
copy_dfd20b4fc7dfa385(const __grid_constant__ CopyParameters<4> p) {
  copy<Bits<16>, Bits<16>, 4, u32, 1, false>(p);
}
