// A CPU kernel that is ready to run: weights packed, loops chosen, nothing left to allocate.
#pragma once

#include <pthreadpool.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "plan/plan.hpp"

namespace braze::cpu {

/// Pointers of one run. inputs and outputs follow KernelPlan::group; workspace has
/// workspace_bytes(threads) bytes, 64-byte aligned, with undefined contents.
struct KernelArguments {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* workspace = nullptr;
  pthreadpool_t pool = nullptr;  // null: run on the calling thread
};

/// Immutable after construction, so that several threads may run it at once with separate
/// workspaces.
class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;
  /// Scratch bytes for `threads` workers.
  [[nodiscard]] virtual std::size_t workspace_bytes(std::size_t threads) const {
    return threads * 0;
  }
  /// Allocates nothing and is noexcept, but for two families: gather, which refuses indices outside
  /// of its axis (kInput), and reference, which throws what the interpreter does. They throw on the
  /// calling thread only, never on a worker of the pool.
  virtual void run(const KernelArguments& arguments) const = 0;
};

/// A kernel that can compute some rows of its result at a time: a member of a group that runs row
/// by row (chain_rows.hpp).
class RowKernel : public Kernel {
 public:
  /// Scratch bytes of one run_rows().
  [[nodiscard]] virtual std::size_t row_workspace_bytes() const { return 0; }
  /// Rows [begin, end) of image n, on the calling thread. Touches no other rows of the result, and
  /// no rows of the inputs but those under their windows. arguments.workspace holds
  /// row_workspace_bytes().
  virtual void run_rows(const KernelArguments& arguments, std::int64_t n, std::int64_t begin,
                        std::int64_t end) const noexcept = 0;
};

/// Builds the kernel of one KernelPlan: reads dtypes, shapes and constants from plan.graph, layouts
/// and pitches from plan.placements, then packs the weights.
using Build = std::unique_ptr<Kernel> (*)(const Plan& plan, const KernelPlan& kernel);

/// Dimensions and element strides of an image value: rank 3, 4 and 5 become [n, c, d, h, w] with
/// missing spatial extents 1. stride_c == 1 in channels-last, stride_w == 1 in model layout.
struct Image {
  std::int64_t n = 1, c = 1, d = 1, h = 1, w = 1;
  std::int64_t stride_n = 0, stride_c = 0, stride_d = 0, stride_h = 0, stride_w = 0;
  [[nodiscard]] bool channels_last() const { return stride_c == 1; }
};
Image image_of(const Plan& plan, ValueId id);

/// Number of workers that parallel_for uses: bounds the scratch a kernel needs.
inline std::size_t worker_count(pthreadpool_t pool) {
  return pool == nullptr ? 1 : pthreadpool_get_threads_count(pool);
}

/// Runs fn(task, worker) for task in [0, count), tasks handed out one by one to the workers as they
/// get free; worker in [0, worker_count(pool)) indexes per-worker scratch. On this thread, in
/// order, when pool is null or there is one task.
template <class Fn>
void parallel_for(pthreadpool_t pool, std::size_t count, const Fn& fn) {
  const std::size_t workers = worker_count(pool);
  if (workers <= 1 || count <= 1) {
    for (std::size_t task = 0; task < count; ++task) fn(task, std::size_t{0});
    return;
  }
  struct Shared {
    const Fn& fn;
    std::size_t count;
    std::atomic<std::size_t> next{0};
  } shared{fn, count};
  const auto work = [](void* context, std::size_t worker) {
    auto& state = *static_cast<Shared*>(context);
    for (std::size_t task;
         (task = state.next.fetch_add(1, std::memory_order_relaxed)) < state.count;)
      state.fn(task, worker);
  };
  pthreadpool_parallelize_1d(pool, work, &shared, workers < count ? workers : count, 0);
}

}  // namespace braze::cpu
