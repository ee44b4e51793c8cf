#include "support/simt/machine.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "support/simt/machine_impl.hpp"

namespace braze::simt {

namespace {

/// NaN as float, half and bfloat16; surrounds shared memory.
constexpr std::uint32_t kGuardWord = 0xfffdfffdu;
/// Rounds of polling without anything else happening, after which a launch has failed.
constexpr unsigned kMaxPollingRounds = 1u << 16;

void fill_guard(std::byte* begin, const std::byte* end) {
  for (std::size_t i = 0; begin + i < end; ++i)
    begin[i] = reinterpret_cast<const std::byte*>(&kGuardWord)[i % 4];
}
[[nodiscard]] std::ptrdiff_t touched(const std::byte* begin, const std::byte* end) {
  for (std::ptrdiff_t i = 0; begin + i < end; ++i)
    if (begin[i] != reinterpret_cast<const std::byte*>(&kGuardWord)[i % 4]) return i;
  return -1;
}

/// Bits that differ in half of their places for seeds that differ in one; never 0.
std::uint64_t mix(std::uint64_t seed) {
  std::uint64_t x = seed + 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return (x ^ x >> 31) | 1;
}

}  // namespace

/// Faults of the running fiber end the launch; all others take their usual course.
class Machine::Signals {
 public:
  Signals() {
#ifdef BRAZE_SIMT_SWITCH
    alignas(64) static thread_local std::array<std::byte, 65536> stack;
    stack_t alternative{};
    alternative.ss_sp = stack.data();
    alternative.ss_size = stack.size();
    ::sigaltstack(&alternative, &old_stack_);
    struct sigaction action{};
    action.sa_sigaction = [](int signal, siginfo_t* information, void* context) {
      on_fault(signal, information, context);
    };
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

Machine::Machine() {
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
  runtime_.dependency_wait = [] { machine().running_->block->waited = true; };
  runtime_.copy_async = [](void* to, const void* from, unsigned bytes, unsigned valid) {
    machine().copy_async({to, from, bytes, valid});
  };
  runtime_.copy_commit = [] {
    Thread& self = *machine().running_;
    self.copy_groups.push_back(self.copies.size());
  };
  runtime_.copy_wait = [](unsigned groups) { machine().copy_wait(groups); };
  runtime_.mbarrier_init = [](void* p, unsigned count) { machine().mbarrier_init(p, count); };
  runtime_.mbarrier_arrive = [](unsigned p, unsigned bytes) {
    machine().mbarrier_arrive(p, bytes);
  };
  runtime_.mbarrier_wait = [](void* p, unsigned parity) { machine().mbarrier_wait(p, parity); };
  runtime_.cluster_address = [](unsigned address, unsigned rank) {
    return machine().cluster_address(address, rank);
  };
  runtime_.cluster_arrive = [] { machine().cluster_arrive(); };
  runtime_.cluster_wait = [] { machine().cluster_wait(); };
  runtime_.bulk_load = [](void* to, const void* from, void* barrier, unsigned bytes) {
    machine().bulk_load(to, from, barrier, bytes);
  };
  runtime_.store_async = [](unsigned to, unsigned barrier, const void* data, unsigned bytes) {
    machine().store_async(to, barrier, data, bytes);
  };
  runtime_.tma_load = [](const TmaLoad& load) { machine().tma_load(load); };
  runtime_.tma_store = [](const TmaLoad& store) { machine().tma_store(store); };
  runtime_.bulk_commit = [] {
    Thread& self = *machine().running_;
    self.store_groups.push_back(self.stores.size());
  };
  runtime_.bulk_wait = [](unsigned groups) { machine().bulk_wait(groups); };
  runtime_.wgmma = [](const Wgmma& product) { machine().wgmma(product); };
  runtime_.wgmma_fence = [] { machine().running_->fenced = true; };
  runtime_.wgmma_commit = [] { machine().wgmma_commit(); };
  runtime_.wgmma_wait = [](unsigned groups) { machine().wgmma_wait(groups); };
}

Machine* Machine::the_machine = nullptr;

void Machine::create() {
  static Machine machine;
  the_machine = &machine;
}

std::string Machine::run(const GridLaunch& launch, std::uint64_t seed) {
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
  Index block{};
  for (block.z = 0; block.z < launch.grid.z; ++block.z)
    for (block.y = 0; block.y < launch.grid.y; ++block.y)
      for (block.x = 0; block.x < launch.grid.x; block.x += launch.cluster) {
        run_cluster(block);
        if (!error_.empty()) return error_;
      }
  return {};
}

std::string Machine::check() const {
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
    return fmt::format("kernel {}: {} bytes of dynamic shared memory; no GPU has more than 232448",
                       name, launch.shared_bytes);
  if (launch.cluster == 0 || launch.cluster > kMaxCluster || launch.grid.x % launch.cluster != 0)
    return fmt::format("kernel {}: clusters of {} blocks in a grid of {}", name, launch.cluster,
                       launch.grid.x);
  // The block's static shared memory is the module's .bss: there is one.
  if (launch.cluster > 1 && launch.module->statics_end - launch.module->statics > 64)
    return fmt::format("kernel {}: static shared memory in clusters is not emulated", name);
  return {};
}

// ---- Blocks

void Machine::lay_out() {
  warp_count_ = (thread_count_ + 31) / 32;
  if (threads_.size() < std::size_t{thread_count_} * launch_->cluster)
    threads_.resize(std::size_t{thread_count_} * launch_->cluster);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  while (blocks_.size() < launch_->cluster) {
    const std::size_t bytes = (kSharedGuard + kMaxShared + page - 1) / page * page;
    void* memory =
        ::mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    blocks_.emplace_back().shared_end = static_cast<std::byte*>(memory) + bytes;
    ::mprotect(blocks_.back().shared_end, page, PROT_NONE);
  }
  for (unsigned rank = 0; rank < launch_->cluster; ++rank) {
    Block& block = blocks_[rank];
    block.rank = rank;
    block.first = rank * thread_count_;
    block.shared = block.shared_end - (launch_->shared_bytes + 1023u) / 1024 * 1024;
    fill_guard(block.shared - kSharedGuard, block.shared);
    fill_guard(block.shared + launch_->shared_bytes, block.shared_end);
    for (unsigned i = 0; i < thread_count_; ++i) {
      Thread& thread = threads_[block.first + i];
      thread.block = &block;
      thread.index = static_cast<std::uint16_t>(block.first + i);
      thread.self.linear = i;
      thread.self.lane = i % 32;
      thread.self.warp = i / 32;
      const Index& dim = runtime_.block_dim;
      thread.self.index = {i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y};
      if (thread.fiber.stack == nullptr) stacks_.assign(block.first + i, thread.fiber);
    }
  }
  runtime_.shared_bytes = launch_->shared_bytes;
  runtime_.cluster_blocks = launch_->cluster;
}

void Machine::begin_block(Block& block) {
  std::memset(block.shared, 0xff, launch_->shared_bytes);
  Lanes lanes{};
  for (unsigned w = 0; w < warp_count_; ++w) {
    const unsigned count = std::min(32u, thread_count_ - 32 * w);
    block.warps[w] = {};
    block.warps[w].lanes = count == 32 ? ~0u : (1u << count) - 1;
    lanes[w] = block.warps[w].lanes;
  }
  for (unsigned w = 0; w < warp_count_; w += 4) {
    block.warpgroups[w / 4].arrived = 0;
    block.warpgroups[w / 4].products.clear();
  }
  block.barriers = {};
  block.ended = 0;
  block.waited = false;
  for (unsigned i = 0; i < thread_count_; ++i) {
    Thread& thread = threads_[block.first + i];
    thread.copies.clear();
    thread.copy_groups.clear();
    thread.stores.clear();
    thread.store_groups.clear();
    thread.at_cluster = thread.in_cluster_barrier = thread.fenced = false;
    thread.fiber.reset(&Machine::start);
  }
  release(block, lanes);
}

/// The variables of the block whose thread runs.
void Machine::enter(const Block& block) {
  runtime_.block = block.index;
  runtime_.cluster_rank = block.rank;
  runtime_.shared = reinterpret_cast<unsigned char*>(block.shared);
}

void Machine::run_cluster(const Index& first) {
  const ModuleTable& module = *launch_->module;
  std::memset(module.statics, 0xff, static_cast<std::size_t>(module.statics_end - module.statics));
  order_ = static_cast<Order>(below(3));
  ready_.clear();
  polling_.clear();
  transfers_.clear();
  memory_barrier_waiters_.clear();
  ended_ = 0;
  cluster_missing_ = launch_->cluster * thread_count_;
  fault_.reset();
  for (unsigned rank = 0; rank < launch_->cluster; ++rank) {
    blocks_[rank].index = {first.x + rank, first.y, first.z};
    begin_block(blocks_[rank]);
  }

  running_ = take();
  runtime_.self = &running_->self;
  enter(*running_->block);
  Fiber::switch_to(main_, running_->fiber);
  const Thread* last = std::exchange(running_, nullptr);

  if (fault_) return report(*last->block, last, describe(*fault_));
  if (!stopped_.empty()) return report(*last->block, last, std::exchange(stopped_, {}));
  if (ended_ != launch_->cluster * thread_count_) return report_deadlock();
  if (!transfers_.empty())
    return report(*transfers_.front().block, nullptr, "ended before a copy to it had arrived");
  for (unsigned rank = 0; rank < launch_->cluster && error_.empty(); ++rank)
    check_block(blocks_[rank]);
}

void Machine::check_block(const Block& block) {
  if (launch_->must_wait && !block.waited)
    return report(block, nullptr, "no thread has called grid_dependency_wait()");
  if (const auto at = touched(block.shared - kSharedGuard, block.shared); at >= 0)
    return report(block, nullptr,
                  fmt::format("wrote {} bytes before its dynamic shared memory",
                              static_cast<std::ptrdiff_t>(kSharedGuard) - at));
  if (const auto at = touched(block.shared + launch_->shared_bytes, block.shared_end); at >= 0)
    return report(block, nullptr,
                  fmt::format("wrote to byte {} of its {} bytes of dynamic shared memory",
                              at + launch_->shared_bytes, launch_->shared_bytes));
}

void Machine::start() {
  Machine& self = machine();
  fiber_started(self.running_->fiber);
  self.launch_->entry->run(self.launch_->parameters);
  Thread& thread = *self.running_;
  if (!thread.stores.empty()) self.stop("ends before its stores by TMA have read shared memory");
  thread.state = State::kEnded;
  thread.block->warps[thread.self.warp].ended |= 1u << thread.self.lane;
  ++thread.block->ended;
  ++self.ended_;
  self.polling_rounds_ = 0;
  if (!thread.at_cluster) self.cluster_missing(1);
  self.leave(thread);
}

// ---- Order

/// Below n, by xorshift.
unsigned Machine::below(unsigned n) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<unsigned>((random_ >> 32) * n >> 32);
}

/// Threads that may run on: lanes of each warp; cleared. Warps are queued in random order.
void Machine::release(const Block& block, Lanes& lanes) {
  std::array<std::uint8_t, kMaxThreads / 32> order{};
  for (unsigned w = 0; w < warp_count_; ++w) {
    const unsigned other = order_ == Order::kRandom ? w : below(w + 1);
    order[w] = order[other];
    order[other] = static_cast<std::uint8_t>(w);
  }
  for (unsigned i = 0; i < warp_count_; ++i)
    release(block, order[i], std::exchange(lanes[order[i]], 0));
}

void Machine::release(const Block& block, unsigned warp, unsigned lanes) {
  while (lanes != 0) {
    const auto lane = static_cast<unsigned>(order_ == Order::kForward ? 31 - std::countl_zero(lanes)
                                                                      : std::countr_zero(lanes));
    lanes &= ~(1u << lane);
    release(threads_[block.first + 32 * warp + lane]);
  }
}

void Machine::release(Thread& thread) {
  thread.state = State::kReady;
  ready_.push_back(thread.index);
  polling_rounds_ = 0;
}

Thread* Machine::take() {
  while (ready_.empty()) {
    if (ended_ == launch_->cluster * thread_count_) return nullptr;
    if (land()) continue;
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
void Machine::leave(Thread& self) {
  Thread* next = take();
  if (next == &self) return;
  if (next == nullptr) return Fiber::switch_to(self.fiber, main_);
  running_ = next;
  runtime_.self = &next->self;
  if (next->block != self.block) enter(*next->block);
  Fiber::switch_to(self.fiber, next->fiber);
}

/// Ends the launch: the fibers are left where they are.
void Machine::stop(std::string message) {
  stopped_ = std::move(message);
  Fiber::switch_to(running_->fiber, main_);
  std::abort();  // nobody comes back
}

void Machine::yield() {
  Thread& self = *running_;
  self.state = State::kPolling;
  polling_.push_back(self.index);
  leave(self);
  self.state = State::kReady;
}

void bind(const ModuleTable& module) {
  Machine::create();
  *module.runtime = Machine::machine().runtime();
}

std::string run(const GridLaunch& launch, std::uint64_t seed) {
  return Machine::machine().run(launch, seed);
}

}  // namespace braze::simt
