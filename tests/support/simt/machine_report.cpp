// Faults of kernels, and the messages about all that goes wrong.
#include <dlfcn.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "support/simt/machine_impl.hpp"

namespace braze::simt {

void Machine::on_fault(int signal, void* information, void* context) {
#ifdef BRAZE_SIMT_SWITCH
  Machine& self = machine();
  if (self.running_ == nullptr) {  // not of a kernel
    ::signal(signal, SIG_DFL);
    return;
  }
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  self.fault_ = Fault{signal, static_cast<siginfo_t*>(information)->si_addr,
                      reinterpret_cast<void*>(registers[REG_RIP])};
  leaving_for(self.main_);
  registers[REG_RSP] = reinterpret_cast<greg_t>(self.main_.context);
  registers[REG_RIP] = reinterpret_cast<greg_t>(resume_address());
#else
  (void)signal, (void)information, (void)context;
#endif
}

void Machine::report(const Block& block, const Thread* thread, const std::string& what) {
  const auto text = [](const Index& i) { return fmt::format("({}, {}, {})", i.x, i.y, i.z); };
  error_ = fmt::format("kernel {}, block {}", launch_->entry->name, text(block.index));
  if (thread != nullptr) error_ += fmt::format(", thread {}", text(thread->self.index));
  error_ += ": " + what;
}

std::string Machine::waits_at(const Thread& thread) const {
  switch (thread.state) {
    case State::kBarrier:
      return fmt::format("barrier {} ({}:{})", thread.barrier, thread.file, thread.line);
    case State::kMeeting:
      return fmt::format("{} with mask {:#x}", name_of(thread.meeting), thread.mask);
    case State::kMemoryBarrier: {
      const MemoryBarrier& b = *thread.memory_barrier;
      const auto* at = reinterpret_cast<const std::byte*>(&b);
      return fmt::format(
          "the mbarrier at byte {} of shared memory, for the end of a phase {} (it is in phase {}, "
          "{} arrivals and {} bytes are missing)",
          at - thread.block->shared, thread.parity, unsigned{b.phase}, unsigned{b.pending},
          b.bytes);
    }
    case State::kWarpgroup:
      return fmt::format("{} for the other threads of its warpgroup", thread.what);
    case State::kCluster:
      return "cluster_wait()";
    case State::kEnded:
      return "its end";
    default:
      return "something that it polls";
  }
}

/// Names the first thread that waits, and the first that does not wait for the same.
void Machine::report_deadlock() {
  const unsigned count = launch_->cluster * thread_count_;
  const Thread *waiting = nullptr, *other = nullptr;
  for (unsigned i = 0; i < count && waiting == nullptr; ++i)
    if (threads_[i].state != State::kEnded) waiting = &threads_[i];
  const std::string at = waits_at(*waiting);
  const Self& self = waiting->self;
  for (unsigned i = 0; i < count && other == nullptr; ++i) {
    const Thread& thread = threads_[i];
    if (waiting->state != State::kCluster && thread.block != waiting->block) continue;
    if (waiting->state == State::kMeeting &&
        (thread.self.warp != self.warp || (waiting->mask >> thread.self.lane & 1u) == 0))
      continue;
    if (waiting->state == State::kWarpgroup && thread.self.warp / 4 != self.warp / 4) continue;
    if (waits_at(thread) != at) other = &thread;
  }
  std::string what = "waits for ever at " + at;
  if (other != nullptr) {
    const Index& i = other->self.index;
    what += fmt::format("; thread ({}, {}, {}) is at {}", i.x, i.y, i.z, waits_at(*other));
  }
  report(*waiting->block, waiting, what);
}

/// With the place in the source, where addr2line is installed.
std::string Machine::describe(const Fault& fault) const {
  std::string what = fmt::format("access to {}, which is not its memory", fault.address);
  if (stacks_.is_guard(fault.address))
    what = "its stack of 64 KB has overflowed";
  else if (fault.signal == SIGILL)
    what = "misaligned access (or another trap)";
  else if (fault.signal == SIGFPE)
    what = "integer division by zero";
  else if (fault.signal == SIGSEGV && fault.address == nullptr)
    what = "access to a null or wild pointer";
  Dl_info info{};
  if (::dladdr(fault.instruction, &info) == 0 || info.dli_fname == nullptr) return what;
  const auto offset =
      static_cast<const char*>(fault.instruction) - static_cast<const char*>(info.dli_fbase);
  const std::string command =
      fmt::format("addr2line -s -i -e '{}' {:#x} 2>/dev/null", info.dli_fname, offset);
  if (FILE* pipe = ::popen(command.c_str(), "r")) {
    char line[256];
    for (const char* word = " at "; std::fgets(line, sizeof line, pipe) != nullptr; word = " < ")
      what += word + std::string(line, std::strcspn(line, " \n"));
    ::pclose(pipe);
  }
  return what;
}

}  // namespace braze::simt
