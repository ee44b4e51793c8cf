// Fibers: stacks that a thread of the operating system switches between.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace braze::simt {

#if defined(__x86_64__)
#define BRAZE_SIMT_SWITCH 1
/// Where a suspended fiber's stack ends; its callee-saved registers lie there.
using FiberContext = void*;
#else
using FiberContext = ucontext_t;
#endif

/// A fiber runs start() from the beginning each time it is reset. Its first function never returns:
/// it switches away for good.
class Fiber {
 public:
  /// What runs now, on the stack of the operating system's thread.
  static Fiber this_thread();
  /// Suspends `from` (what runs now) and continues `to`.
  static void switch_to(Fiber& from, Fiber& to);

  void reset(void (*start)());

  FiberContext context{};
  std::byte* stack = nullptr;  // lowest address; null: the stack of the operating system's thread
  std::size_t bytes = 0;
  std::size_t colour = 0;      // bytes left free at the top, so that stacks do not share cache sets
  void* fake_stack = nullptr;  // AddressSanitizer's
};

#ifdef BRAZE_SIMT_SWITCH
/// Where to continue, for a signal handler that leaves a fiber: with the stack pointer set to the
/// context of the fiber to run.
void* resume_address();
/// What such a handler calls first.
void leaving_for(Fiber& to);
#endif

/// Stacks with an inaccessible page below each; made when first needed and kept.
class StackPool {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 10;

  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool();

  /// Gives fiber number `index` its stack.
  void assign(std::size_t index, Fiber& fiber);
  /// Whether an address lies in one of the inaccessible pages: a stack has overflowed.
  [[nodiscard]] bool is_guard(const void* address) const;

 private:
  std::vector<std::byte*> chunks_;
};

/// Once switched to, tells the sanitizer so. Called first by whatever a fiber starts with.
void fiber_started(Fiber& fiber);

}  // namespace braze::simt
