// Run-time parameters of gather.cuh.
#pragma once

namespace braze::device {

/// y[o, p, i] = x[o, index[p], i] in elements of the kernel's type; negative indices count from the
/// end.
struct GatherParameters {
  const void* x;
  const void* index;
  void* y;
  long long count, picks, run, extent;
};

}  // namespace braze::device
