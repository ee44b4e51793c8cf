#include "support/simt/machine.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "support/simt/fiber.hpp"
#include "support/simt/meeting.hpp"

namespace braze::simt {

namespace {

constexpr unsigned kMaxThreads = 1024, kBarriers = 16;
constexpr std::size_t kMaxShared = std::size_t{256} << 10, kSharedGuard = 1024;
/// NaN as float, half and bfloat16; surrounds shared memory.
constexpr std::uint32_t kGuardWord = 0xfffdfffdu;
/// Addresses that kernels see of dynamic and of static shared memory.
constexpr unsigned kDynamicBase = 1024, kStaticBase = 1u << 24;
/// Rounds of polling without anything else happening, after which a launch has failed.
constexpr unsigned kMaxPollingRounds = 1u << 16;

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  unsigned bytes = 0, valid = 0;
};

enum class State : std::uint8_t { kReady, kBarrier, kMeeting, kPolling, kEnded };

struct Thread {
  Self self{};
  State state = State::kReady;
  std::uint8_t barrier = 0;
  Meeting meeting = Meeting::kSyncWarp;
  unsigned mask = 0;  // of the meeting
  int result = 0;     // of the barrier
  const char* file = nullptr;
  int line = 0;
  Fiber fiber;
  std::vector<Copy> copies;              // asynchronous, in order
  std::vector<std::size_t> copy_groups;  // how many copies there were at each commit
};

struct Warp {
  unsigned lanes = 0;  // that exist
  unsigned ended = 0;
  unsigned arrived = 0;  // at a meeting
  std::array<void*, 32> parts{};
};

struct Barrier {
  unsigned expected = 0, arrived = 0;  // threads
  Reduction reduction = Reduction::kNone;
  int value = 0;
  const char* file = nullptr;
  int line = 0;
  std::array<unsigned, kMaxThreads / 32> waiting{};  // lanes of each warp
};

/// How the next fiber is chosen.
enum class Order : std::uint8_t { kRandom, kForward, kBackward };

struct Fault {
  int signal = 0;
  const void *address = nullptr, *instruction = nullptr;
};

class Machine {
 public:
  Machine() {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t bytes = kSharedGuard + kMaxShared + page;
    void* memory = ::mmap(nullptr, (bytes + page - 1) / page * page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    shared_end_ = static_cast<std::byte*>(memory) + (bytes + page - 1) / page * page - page;
    ::mprotect(shared_end_, page, PROT_NONE);
    runtime_.barrier = [](unsigned id, unsigned count, Reduction reduction, int predicate,
                          const char* file, int line) {
      return machine().barrier(id, count, reduction, predicate, file, line);
    };
    runtime_.arrive = [](unsigned id, unsigned count) { machine().arrive(id, count); };
    runtime_.meet = [](Meeting meeting, void* part, unsigned mask) {
      machine().meet(meeting, part, mask);
    };
    runtime_.yield = [] { machine().yield(); };
    runtime_.fail = [](const char* message) { machine().stop(message); };
    runtime_.active_lanes = [] { return machine().active_lanes(); };
    runtime_.shared_address = [](const void* p) { return machine().shared_address(p); };
    runtime_.shared_pointer = [](unsigned address) { return machine().shared_pointer(address); };
    runtime_.copy_async = [](void* to, const void* from, unsigned bytes, unsigned valid) {
      machine().copy_async({to, from, bytes, valid});
    };
    runtime_.copy_commit = [] {
      Thread& self = *machine().running_;
      self.copy_groups.push_back(self.copies.size());
    };
    runtime_.copy_wait = [](unsigned groups) { machine().copy_wait(groups); };
    runtime_.dependency_wait = [] { machine().waited_ = true; };
    threads_.resize(kMaxThreads);
    ready_.reserve(kMaxThreads);
    polling_.reserve(kMaxThreads);
  }

  static Machine& machine() {
    static Machine machine;
    return machine;
  }

  Runtime* runtime() { return &runtime_; }

  std::string run(const GridLaunch& launch, std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    const Signals signals;
    launch_ = &launch;
    error_.clear();
    main_ = Fiber::this_thread();
    random_ = mix(seed);
    runtime_.grid_dim = launch.grid;
    runtime_.block_dim = launch.block;
    thread_count_ = launch.block.x * launch.block.y * launch.block.z;
    if (std::string wrong = check(); !wrong.empty()) return wrong;
    lay_out();
    Index& block = runtime_.block;
    for (block.z = 0; block.z < launch.grid.z; ++block.z)
      for (block.y = 0; block.y < launch.grid.y; ++block.y)
        for (block.x = 0; block.x < launch.grid.x; ++block.x) {
          run_block();
          if (!error_.empty()) return error_;
        }
    return {};
  }

 private:
  /// Faults of the running fiber end the launch; all others take their usual course.
  class Signals {
   public:
    Signals() {
#ifdef BRAZE_SIMT_SWITCH
      static thread_local std::array<std::byte, 65536> stack;
      stack_t alternative{};
      alternative.ss_sp = stack.data();
      alternative.ss_size = stack.size();
      ::sigaltstack(&alternative, &old_stack_);
      struct sigaction action{};
      action.sa_sigaction = &Machine::on_fault;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &old_[i]);
#endif
    }
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;
    ~Signals() {
#ifdef BRAZE_SIMT_SWITCH
      for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &old_[i], nullptr);
      if ((old_stack_.ss_flags & SS_DISABLE) == 0) ::sigaltstack(&old_stack_, nullptr);
#endif
    }

   private:
    static constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    std::array<struct sigaction, 4> old_{};
    stack_t old_stack_{};
  };

#ifdef BRAZE_SIMT_SWITCH
  static void on_fault(int signal, siginfo_t* info, void* context) {
    Machine& self = machine();
    if (self.running_ == nullptr) {  // not of a kernel
      ::signal(signal, SIG_DFL);
      return;
    }
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    self.fault_ = Fault{signal, info->si_addr, reinterpret_cast<void*>(registers[REG_RIP])};
    leaving_for(self.main_);
    registers[REG_RSP] = reinterpret_cast<greg_t>(self.main_.context);
    registers[REG_RIP] = reinterpret_cast<greg_t>(resume_address());
  }
#endif

  // ---- Blocks

  [[nodiscard]] std::string check() const {
    const GridLaunch& launch = *launch_;
    const char* name = launch.entry->name;
    if (thread_count_ == 0 || thread_count_ > kMaxThreads)
      return fmt::format("kernel {}: a block of {} threads; 1 to {} are possible", name,
                         thread_count_, kMaxThreads);
    if (launch.entry->threads != 0 && thread_count_ > launch.entry->threads)
      return fmt::format("kernel {}: a block of {} threads, more than its __launch_bounds__({})",
                         name, thread_count_, launch.entry->threads);
    if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0 ||
        launch.grid.x > 0x7fffffffu || launch.grid.y > 65535 || launch.grid.z > 65535)
      return fmt::format("kernel {}: a grid of {} x {} x {} blocks", name, launch.grid.x,
                         launch.grid.y, launch.grid.z);
    if (launch.shared_bytes > 232448)
      return fmt::format(
          "kernel {}: {} bytes of dynamic shared memory; no GPU has more than 232448", name,
          launch.shared_bytes);
    return {};
  }

  void lay_out() {
    warp_count_ = (thread_count_ + 31) / 32;
    for (unsigned i = 0; i < thread_count_; ++i) {
      Thread& thread = threads_[i];
      thread.self.linear = i;
      thread.self.lane = i % 32;
      thread.self.warp = i / 32;
      const Index& dim = runtime_.block_dim;
      thread.self.index = {i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y};
      if (thread.fiber.stack == nullptr) stacks_.assign(i, thread.fiber);
    }
    const std::size_t padded = (launch_->shared_bytes + 1023u) / 1024 * 1024;
    shared_ = shared_end_ - padded;
    runtime_.shared = reinterpret_cast<unsigned char*>(shared_);
    runtime_.shared_bytes = launch_->shared_bytes;
    fill_guard(shared_ - kSharedGuard, shared_);
    fill_guard(shared_ + launch_->shared_bytes, shared_end_);
  }

  static void fill_guard(std::byte* begin, const std::byte* end) {
    for (std::size_t i = 0; begin + i < end; ++i)
      begin[i] = reinterpret_cast<const std::byte*>(&kGuardWord)[i % 4];
  }
  [[nodiscard]] static std::ptrdiff_t touched(const std::byte* begin, const std::byte* end) {
    for (std::ptrdiff_t i = 0; begin + i < end; ++i)
      if (begin[i] != reinterpret_cast<const std::byte*>(&kGuardWord)[i % 4]) return i;
    return -1;
  }

  void run_block() {
    std::memset(shared_, 0xff, launch_->shared_bytes);
    const ModuleTable& module = *launch_->module;
    std::memset(module.statics, 0xff,
                static_cast<std::size_t>(module.statics_end - module.statics));
    order_ = static_cast<Order>(below(3));
    for (unsigned w = 0; w < warp_count_; ++w) {
      const unsigned lanes = std::min(32u, thread_count_ - 32 * w);
      warps_[w] = {};
      warps_[w].lanes = lanes == 32 ? ~0u : (1u << lanes) - 1;
      released_[w] = warps_[w].lanes;
    }
    barriers_ = {};
    for (unsigned i = 0; i < thread_count_; ++i) {
      Thread& thread = threads_[i];
      thread.copies.clear();
      thread.copy_groups.clear();
      thread.fiber.reset(&Machine::start);
    }
    ready_.clear();
    polling_.clear();
    release(released_);
    ended_ = 0;
    waited_ = false;
    polling_rounds_ = 0;
    fault_.reset();

    Thread* first = take();
    running_ = first;
    runtime_.self = &first->self;
    Fiber::switch_to(main_, first->fiber);
    const Thread* last = running_;
    running_ = nullptr;

    if (fault_) return report(last, describe(*fault_));
    if (!stopped_.empty()) return report(last, std::exchange(stopped_, {}));
    if (ended_ != thread_count_) return report_deadlock();
    if (launch_->must_wait && !waited_)
      return report(nullptr, "no thread has called grid_dependency_wait()");
    if (const auto at = touched(shared_ - kSharedGuard, shared_); at >= 0)
      return report(nullptr, fmt::format("wrote {} bytes before its dynamic shared memory",
                                         static_cast<std::ptrdiff_t>(kSharedGuard) - at));
    if (const auto at = touched(shared_ + launch_->shared_bytes, shared_end_); at >= 0)
      return report(nullptr,
                    fmt::format("wrote to byte {} of its {} bytes of dynamic shared memory",
                                at + launch_->shared_bytes, launch_->shared_bytes));
  }

  static void start() {
    Machine& self = machine();
    fiber_started(self.running_->fiber);
    self.launch_->entry->run(self.launch_->parameters);
    Thread& thread = *self.running_;
    thread.state = State::kEnded;
    self.warps_[thread.self.warp].ended |= 1u << thread.self.lane;
    ++self.ended_;
    self.polling_rounds_ = 0;
    self.leave(thread);
  }

  // ---- Order

  /// Bits that differ in half of their places for seeds that differ in one; never 0.
  static std::uint64_t mix(std::uint64_t seed) {
    std::uint64_t x = seed + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) | 1;
  }

  /// Below n, by xorshift.
  unsigned below(unsigned n) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<unsigned>((random_ >> 32) * n >> 32);
  }

  /// Threads that may run on: lanes of each warp; cleared. Warps are queued in random order.
  void release(std::array<unsigned, kMaxThreads / 32>& lanes) {
    std::array<std::uint8_t, kMaxThreads / 32> order{};
    for (unsigned w = 0; w < warp_count_; ++w) {
      const unsigned other = order_ == Order::kRandom ? w : below(w + 1);
      order[w] = order[other];
      order[other] = static_cast<std::uint8_t>(w);
    }
    for (unsigned i = 0; i < warp_count_; ++i) release(order[i], std::exchange(lanes[order[i]], 0));
    polling_rounds_ = 0;
  }

  void release(unsigned warp, unsigned lanes) {
    while (lanes != 0) {
      const auto lane = static_cast<unsigned>(
          order_ == Order::kForward ? 31 - std::countl_zero(lanes) : std::countr_zero(lanes));
      lanes &= ~(1u << lane);
      threads_[32 * warp + lane].state = State::kReady;
      ready_.push_back(static_cast<std::uint16_t>(32 * warp + lane));
    }
  }

  Thread* take() {
    if (ready_.empty()) {
      if (polling_.empty() || ++polling_rounds_ > kMaxPollingRounds) return nullptr;
      std::swap(ready_, polling_);
    }
    const std::size_t at =
        order_ == Order::kRandom ? below(static_cast<unsigned>(ready_.size())) : ready_.size() - 1;
    Thread* thread = &threads_[ready_[at]];
    ready_[at] = ready_.back();
    ready_.pop_back();
    return thread;
  }

  /// Runs others until `self` is taken again.
  void leave(Thread& self) {
    Thread* next = take();
    if (next == &self) return;
    if (next == nullptr) return Fiber::switch_to(self.fiber, main_);
    running_ = next;
    runtime_.self = &next->self;
    Fiber::switch_to(self.fiber, next->fiber);
  }

  /// Ends the launch: the fibers are left where they are.
  void stop(std::string message) {
    stopped_ = std::move(message);
    Fiber::switch_to(running_->fiber, main_);
  }

  void yield() {
    Thread& self = *running_;
    self.state = State::kPolling;
    polling_.push_back(static_cast<std::uint16_t>(self.self.linear));
    leave(self);
    self.state = State::kReady;
  }

  // ---- Barriers and meetings

  /// Whether the barrier is complete with `threads` more.
  bool arrive_at(unsigned id, unsigned count, unsigned threads) {
    if (id >= kBarriers) stop(fmt::format("barrier {}: there are {}", id, kBarriers));
    if (count % 32 != 0 && count != thread_count_)
      stop(fmt::format("barrier {} for {} threads, no multiple of 32", id, count));
    Barrier& barrier = barriers_[id];
    if (barrier.arrived == 0) barrier.expected = count;
    if (barrier.expected != count)
      stop(fmt::format("barrier {} for {} threads, where others said {}", id, count,
                       barrier.expected));
    barrier.arrived += threads;
    return barrier.arrived == barrier.expected;
  }

  void open(Barrier& barrier) {
    for (unsigned w = 0; w < warp_count_; ++w) {
      for (unsigned lanes = barrier.waiting[w]; lanes != 0; lanes &= lanes - 1)
        threads_[32 * w + static_cast<unsigned>(std::countr_zero(lanes))].result = barrier.value;
    }
    barrier.arrived = 0;
    release(barrier.waiting);
  }

  int barrier(unsigned id, unsigned count, Reduction reduction, int predicate, const char* file,
              int line) {
    Thread& self = *running_;
    const bool first = id < kBarriers && barriers_[id].arrived == 0;
    const bool complete = arrive_at(id, count == 0 ? thread_count_ : count, 1);
    Barrier& barrier = barriers_[id];
    if (first) {
      barrier.reduction = reduction;
      barrier.value = reduction == Reduction::kAnd ? 1 : 0;
      barrier.file = file;
      barrier.line = line;
    } else if (count == 0 && (barrier.line != line || std::strcmp(barrier.file, file) != 0)) {
      stop(fmt::format("waits at __syncthreads() of {}:{}, others of its block at {}:{}", file,
                       line, barrier.file, barrier.line));
    }
    if (reduction == Reduction::kCount) barrier.value += predicate != 0;
    if (reduction == Reduction::kAnd) barrier.value &= static_cast<int>(predicate != 0);
    if (reduction == Reduction::kOr) barrier.value |= static_cast<int>(predicate != 0);
    self.state = State::kBarrier;
    self.barrier = static_cast<std::uint8_t>(id);
    self.file = file;
    self.line = line;
    barrier.waiting[self.self.warp] |= 1u << self.self.lane;
    if (complete) open(barrier);
    leave(self);
    return self.result;
  }

  void arrive(unsigned id, unsigned count) {
    if (arrive_at(id, count, 1)) open(barriers_[id]);
  }

  void meet(Meeting meeting, void* part, unsigned mask) {
    Thread& self = *running_;
    Warp& warp = warps_[self.self.warp];
    if ((mask >> self.self.lane & 1u) == 0)
      stop(fmt::format("calls {} with mask {:#x}, in which it is not", name_of(meeting), mask));
    mask &= warp.lanes;
    self.state = State::kMeeting;
    self.meeting = meeting;
    self.mask = mask;
    warp.parts[self.self.lane] = part;
    warp.arrived |= 1u << self.self.lane;
    if ((warp.arrived & mask) != mask) return leave(self);
    for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
      const Thread& other = threads_[32 * self.self.warp + lane];
      if (other.meeting != meeting || other.mask != mask)
        stop(fmt::format("is at {} with mask {:#x}, lane {} of its warp at {} with mask {:#x}",
                         name_of(meeting), mask, lane, name_of(other.meeting), other.mask));
    }
    if (const char *wrong = hold(meeting, warp.parts, mask, [](const void* p, unsigned bytes) {
          return machine().is_shared(p, bytes);
        }))
      stop(fmt::format("{}: {}", name_of(meeting), wrong));
    warp.arrived &= ~mask;
    polling_rounds_ = 0;
    release(self.self.warp, mask & ~(1u << self.self.lane));
    self.state = State::kReady;
  }

  unsigned active_lanes() {
    const Warp& warp = warps_[running_->self.warp];
    return warp.lanes & ~warp.ended;
  }

  // ---- Shared memory

  bool is_shared(const void* p, unsigned bytes) const {
    const auto* at = static_cast<const std::byte*>(p);
    const auto* statics = reinterpret_cast<const std::byte*>(launch_->module->statics);
    const auto* statics_end = reinterpret_cast<const std::byte*>(launch_->module->statics_end);
    return (at >= shared_ && at + bytes <= shared_ + launch_->shared_bytes) ||
           (at >= statics && at + bytes <= statics_end);
  }

  unsigned shared_address(const void* p) {
    const auto* at = static_cast<const std::byte*>(p);
    if (at >= shared_ && at <= shared_end_)
      return kDynamicBase + static_cast<unsigned>(at - shared_);
    if (!is_shared(p, 0)) stop("takes the shared address of something that is not shared");
    return kStaticBase +
           static_cast<unsigned>(static_cast<const unsigned char*>(p) - launch_->module->statics);
  }

  void* shared_pointer(unsigned address) const {
    return address < kStaticBase ? static_cast<void*>(shared_ + address - kDynamicBase)
                                 : launch_->module->statics + (address - kStaticBase);
  }

  // ---- Asynchronous copies land when their thread waits; until then there is garbage

  void copy_async(const Copy& copy) {
    if (reinterpret_cast<std::uintptr_t>(copy.to) % copy.bytes != 0 ||
        (copy.valid != 0 && reinterpret_cast<std::uintptr_t>(copy.from) % copy.bytes != 0))
      stop(fmt::format("cp.async of {} bytes from {} to {}: not aligned", copy.bytes, copy.from,
                       copy.to));
    if (!is_shared(copy.to, copy.bytes))
      stop("cp.async to an address outside of the block's shared memory");
    if (copy.valid > copy.bytes)
      stop(fmt::format("cp.async of {} bytes, {} of them valid", copy.bytes, copy.valid));
    std::memset(copy.to, 0xff, copy.bytes);
    running_->copies.push_back(copy);
  }

  void copy_wait(unsigned groups) {
    Thread& self = *running_;
    if (self.copy_groups.size() <= groups) return;
    const auto landing = static_cast<std::ptrdiff_t>(self.copy_groups.size() - groups);
    const std::size_t end = self.copy_groups[static_cast<std::size_t>(landing - 1)];
    for (std::size_t i = 0; i < end; ++i) {
      const Copy& copy = self.copies[i];
      std::memset(copy.to, 0, copy.bytes);
      if (copy.valid != 0) std::memcpy(copy.to, copy.from, copy.valid);
    }
    self.copies.erase(self.copies.begin(), self.copies.begin() + static_cast<std::ptrdiff_t>(end));
    self.copy_groups.erase(self.copy_groups.begin(), self.copy_groups.begin() + landing);
    for (std::size_t& group : self.copy_groups) group -= end;
  }

  // ---- What went wrong

  void report(const Thread* thread, const std::string& what) {
    const auto text = [](const Index& i) { return fmt::format("({}, {}, {})", i.x, i.y, i.z); };
    error_ = fmt::format("kernel {}, block {}", launch_->entry->name, text(runtime_.block));
    if (thread != nullptr) error_ += fmt::format(", thread {}", text(thread->self.index));
    error_ += ": " + what;
  }

  static std::string waits_at(const Thread& thread) {
    switch (thread.state) {
      case State::kBarrier:
        return fmt::format("barrier {} ({}:{})", thread.barrier, thread.file, thread.line);
      case State::kMeeting:
        return fmt::format("{} with mask {:#x}", name_of(thread.meeting), thread.mask);
      case State::kEnded:
        return "its end";
      default:
        return "something that it polls";
    }
  }

  /// Names the first thread that waits, and the first that does not wait for the same.
  void report_deadlock() {
    const Thread *waiting = nullptr, *other = nullptr;
    for (unsigned i = 0; i < thread_count_ && waiting == nullptr; ++i)
      if (threads_[i].state != State::kEnded) waiting = &threads_[i];
    const std::string at = waits_at(*waiting);
    const bool warp = waiting->state == State::kMeeting;
    for (unsigned i = 0; i < thread_count_ && other == nullptr; ++i) {
      if (warp && (i / 32 != waiting->self.warp || (waiting->mask >> (i % 32) & 1u) == 0)) continue;
      if (waits_at(threads_[i]) != at) other = &threads_[i];
    }
    std::string what = "waits for ever at " + at;
    if (other != nullptr) {
      const Index& i = other->self.index;
      what += fmt::format("; thread ({}, {}, {}) is at {}", i.x, i.y, i.z, waits_at(*other));
    }
    report(waiting, what);
  }

  /// With the place in the source, where addr2line is installed.
  std::string describe(const Fault& fault) const {
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

  std::mutex mutex_;
  Runtime runtime_{};
  const GridLaunch* launch_ = nullptr;
  StackPool stacks_;
  std::vector<Thread> threads_;
  std::array<Warp, kMaxThreads / 32> warps_;
  std::array<Barrier, kBarriers> barriers_;
  std::array<unsigned, kMaxThreads / 32> released_{};
  unsigned thread_count_ = 0, warp_count_ = 0, ended_ = 0, polling_rounds_ = 0;
  std::vector<std::uint16_t> ready_, polling_;
  Order order_ = Order::kRandom;
  std::uint64_t random_ = 1;
  Fiber main_;
  Thread* running_ = nullptr;
  std::byte *shared_ = nullptr, *shared_end_ = nullptr;
  bool waited_ = false;
  std::optional<Fault> fault_;
  std::string stopped_, error_;
};

}  // namespace

void bind(const ModuleTable& module) { *module.runtime = Machine::machine().runtime(); }

std::string run(const GridLaunch& launch, std::uint64_t seed) {
  return Machine::machine().run(launch, seed);
}

}  // namespace braze::simt
