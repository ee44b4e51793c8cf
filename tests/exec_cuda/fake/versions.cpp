// Enough of cuDNN 9.8.1 and of a CUDA 13.0 run time to be found.
#include <cstddef>

extern "C" {

std::size_t cudnnGetVersion() { return 90801; }
int cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return 0;
}
}
