// The state of Machine and what it does, in four files: machine.cpp (grids, blocks, the order of
// threads), machine_meet.cpp (barriers, warps, shared memory), machine_sm90.cpp (barriers in
// memory, TMA, clusters, warpgroups), machine_report.cpp (what went wrong).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "support/simt/asynchronous.hpp"
#include "support/simt/fiber.hpp"
#include "support/simt/machine.hpp"
#include "support/simt/meeting.hpp"

namespace braze::simt {

constexpr unsigned kMaxThreads = 1024, kBarriers = 16, kMaxCluster = 16;
constexpr std::size_t kMaxShared = std::size_t{256} << 10, kSharedGuard = 1024;
/// Addresses that kernels see of dynamic and of static shared memory; of a block of the cluster,
/// plus (rank + 1) times kClusterStep.
constexpr unsigned kDynamicBase = 1024, kStaticBase = 1u << 24, kClusterStep = 1u << 26;

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  unsigned bytes = 0, valid = 0;
};

enum class State : std::uint8_t {
  kReady,
  kBarrier,
  kMeeting,
  kMemoryBarrier,
  kWarpgroup,
  kCluster,
  kPolling,
  kEnded
};

/// A box of shared memory that is to be written to a tensor.
struct BoxStore {
  const std::byte* from = nullptr;
  std::vector<BoxRow> rows;
  unsigned row_bytes = 0, swizzle_bytes = 0;
};

struct Block;

struct Thread {
  Self self{};
  Block* block = nullptr;
  std::uint16_t index = 0;          // in Machine::threads_
  bool at_cluster = false;          // has arrived at the cluster's barrier, and others have not
  bool in_cluster_barrier = false;  // between cluster_arrive() and cluster_wait()
  bool fenced = false;              // wgmma_fence() since the last wgmma_wait()
  State state = State::kReady;
  std::uint8_t barrier = 0;
  Meeting meeting = Meeting::kSyncWarp;
  unsigned mask = 0;           // of the meeting
  int result = 0;              // of the barrier
  const char* what = nullptr;  // a warpgroup waits for
  const MemoryBarrier* memory_barrier = nullptr;
  unsigned parity = 0;
  const char* file = nullptr;
  int line = 0;
  Fiber fiber;
  std::vector<Copy> copies;               // asynchronous, in order
  std::vector<std::size_t> copy_groups;   // how many copies there were at each commit
  std::vector<BoxStore> stores;           // by TMA, in order, not done yet
  std::vector<std::size_t> store_groups;  // likewise
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

struct Warpgroup {
  unsigned arrived = 0;
  const char* what = nullptr;  // they have arrived at
  bool fenced = false;
  Wgmma product{};
  std::array<float*, 128> d{};
  WarpgroupProducts products;
};

struct Block {
  Index index{};
  unsigned rank = 0;   // in the cluster
  unsigned first = 0;  // of its threads in Machine::threads_
  unsigned ended = 0;
  bool waited = false;  // grid_dependency_wait() has been called
  std::byte *shared = nullptr, *shared_end = nullptr;
  std::array<Warp, kMaxThreads / 32> warps;
  std::array<Barrier, kBarriers> barriers;
  std::array<Warpgroup, kMaxThreads / 128> warpgroups;
};

/// A copy to shared memory that is under way; its bytes are counted on a barrier.
struct Transfer {
  Block* block = nullptr;
  std::byte* to = nullptr;
  MemoryBarrier* barrier = nullptr;
  std::vector<BoxRow> rows;
  std::vector<std::byte> data;  // of a store, instead of rows
  unsigned row_bytes = 0, swizzle_bytes = 0;
};

/// How the next fiber is chosen.
enum class Order : std::uint8_t { kRandom, kForward, kBackward };

struct Fault {
  int signal = 0;
  const void *address = nullptr, *instruction = nullptr;
};

class Machine {
 public:
  static Machine& machine() { return *the_machine; }
  static void create();
  Runtime* runtime() { return &runtime_; }
  std::string run(const GridLaunch& launch, std::uint64_t seed);

 private:
  using Lanes = std::array<unsigned, kMaxThreads / 32>;  // of each warp
  class Signals;

  Machine();

  // Blocks
  [[nodiscard]] std::string check() const;
  void lay_out();
  void run_cluster(const Index& first);
  void begin_block(Block& block);
  void check_block(const Block& block);
  static void start();
  void enter(const Block& block);

  // Order
  unsigned below(unsigned n);
  void release(const Block& block, Lanes& lanes);
  void release(const Block& block, unsigned warp, unsigned lanes);
  void release(Thread& thread);
  Thread* take();
  void leave(Thread& self);
  [[noreturn]] void stop(std::string message);
  void yield();

  // Barriers and meetings
  bool arrive_at(unsigned id, unsigned count);
  void open(Block& block, Barrier& barrier);
  int barrier(unsigned id, unsigned count, Reduction reduction, int predicate, const char* file,
              int line);
  void arrive(unsigned id, unsigned count);
  void meet(Meeting meeting, void* part, unsigned mask);
  [[nodiscard]] unsigned active_lanes() const;

  // Shared memory
  [[nodiscard]] bool is_shared(const Block& block, const void* p, std::size_t bytes) const;
  unsigned shared_address(const void* p);
  /// Of the running block or, for an address in the cluster, of another; which one.
  std::byte* shared_pointer(unsigned address, Block*& block);
  void copy_async(const Copy& copy);
  void copy_wait(unsigned groups);

  // sm_90
  MemoryBarrier& memory_barrier(const Block& block, void* p);
  void mbarrier_init(void* p, unsigned count);
  void mbarrier_arrive(unsigned address, unsigned bytes);
  void mbarrier_wait(void* p, unsigned parity);
  void advance(MemoryBarrier& barrier, unsigned arrivals, int announced, int landed);
  unsigned cluster_address(unsigned address, unsigned rank);
  void cluster_arrive();
  void cluster_wait();
  void cluster_missing(unsigned threads);
  void bulk_load(void* to, const void* from, void* barrier, unsigned bytes);
  void store_async(unsigned to, unsigned barrier, const void* data, unsigned bytes);
  void tma_load(const TmaLoad& load);
  std::string issue_tma(const TmaLoad& load);
  void tma_store(const TmaLoad& store);
  std::string issue_tma_store(const TmaLoad& store);
  void bulk_wait(unsigned groups);
  /// Lets one transfer, any, arrive. False if there is none.
  bool land();
  /// Whether the running thread is the last of its warpgroup to come here; the others wait, until
  /// release_warpgroup().
  bool gather_warpgroup(const char* what);
  void release_warpgroup();
  Warpgroup& warpgroup();
  [[nodiscard]] std::function<const void*(unsigned)> reader() const;
  void wgmma(const Wgmma& product);
  void wgmma_commit();
  void wgmma_wait(unsigned groups);

  // What went wrong
  static void on_fault(int signal, void* information, void* context);
  void report(const Block& block, const Thread* thread, const std::string& what);
  void report_deadlock();
  [[nodiscard]] std::string waits_at(const Thread& thread) const;
  [[nodiscard]] std::string describe(const Fault& fault) const;

  static Machine* the_machine;  // made once, kept

  std::mutex mutex_;
  Runtime runtime_{};
  const GridLaunch* launch_ = nullptr;
  StackPool stacks_;
  std::vector<Thread> threads_;                 // of the cluster, block after block
  std::vector<Block> blocks_;                   // of the cluster
  unsigned thread_count_ = 0, warp_count_ = 0;  // of a block
  unsigned ended_ = 0;                          // threads of the cluster
  unsigned cluster_missing_ = 0;                // threads that have not arrived and not ended
  unsigned polling_rounds_ = 0;
  std::vector<std::uint16_t> ready_, polling_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint16_t> memory_barrier_waiters_;
  Order order_ = Order::kRandom;
  std::uint64_t random_ = 1;
  Fiber main_;
  Thread* running_ = nullptr;
  std::optional<Fault> fault_;
  std::string stopped_, error_;
};

}  // namespace braze::simt
