// Copies whose source follows a table along some axes: padding of every mode, nearest neighbours.
#pragma once

#include "braze/copy.cuh"

namespace braze::device {

template <class T, class Index, int kThreads>
__device__ __forceinline__ void copy_tables(const CopyTablesParameters& p) {
  launch_dependents();
  grid_dependency_wait();
  const i64 at = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= p.count) return;
  Index index = static_cast<Index>(at);
  i64 from = 0, to = 0;
  bool filled = false;
  for (int axis = p.axes - 1; axis >= 0; --axis) {
    const CopyTableAxis& along = p.axis[axis];
    const Index extent = static_cast<Index>(along.extent);
    const Index next = axis > 0 ? index / extent : 0, here = index - next * extent;
    index = next;
    to += here * along.to_stride;
    const i64 offset = along.table != nullptr ? along.table[here] : here * along.from_stride;
    filled = filled || offset < 0;
    from += offset;
  }
  const T* const x = reinterpret_cast<const T*>(static_cast<const char*>(p.from) + from);
  *reinterpret_cast<T*>(static_cast<char*>(p.to) + to) =
      filled ? *reinterpret_cast<const T*>(p.fill) : *x;
}

}  // namespace braze::device
