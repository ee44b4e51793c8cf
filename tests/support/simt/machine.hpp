// Runs emulated kernels: the blocks of a grid one after another, the threads of a block as fibers.
//
// Between barriers the fibers run in an order that changes from block to block and from launch to
// launch: by random, or warp by warp with the lanes forwards or backwards. So what a missing
// barrier leaves to chance goes wrong. Reported with kernel, block and thread: barriers that not
// all threads reach, collectives whose lanes disagree, writes beside the dynamic shared memory,
// accesses to memory that is not mapped or misaligned, overflowing stacks (64 KB), endless polling.
#pragma once

#include <cstdint>
#include <string>

#include "support/simt/runtime.hpp"

namespace braze::simt {

struct GridLaunch {
  const Entry* entry = nullptr;
  const ModuleTable* module = nullptr;
  const void* parameters = nullptr;
  Index grid{1, 1, 1}, block{1, 1, 1};
  unsigned shared_bytes = 0;
  unsigned cluster = 1;    // blocks, along x
  bool must_wait = false;  // each block must call grid_dependency_wait()
};

/// Called once for each module that was loaded.
void bind(const ModuleTable& module);

/// Runs a grid; "" or what went wrong. What `seed` changes is only the order of threads.
std::string run(const GridLaunch& launch, std::uint64_t seed);

}  // namespace braze::simt
