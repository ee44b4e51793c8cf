// Enough of cuDNN and of a CUDA 13.0 run time to be found.
#include <cstddef>

#ifndef FAKE_CUDNN
#define FAKE_CUDNN 0  // 90801 for 9.8.1
#endif

extern "C" {

std::size_t cudnnGetVersion() { return FAKE_CUDNN; }
int cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return 0;
}
}
