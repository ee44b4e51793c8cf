// Barriers in shared memory, copies by TMA, clusters and warpgroups.
//
// A copy spoils its destination when it is issued and arrives as late as possible: when no thread
// can run on without it.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/simt/machine_impl.hpp"

namespace braze::simt {

// ---- Barriers in shared memory

MemoryBarrier& Machine::memory_barrier(const Block& block, void* p) {
  if (reinterpret_cast<std::uintptr_t>(p) % 8 != 0 || !is_shared(block, p, 8))
    stop("an mbarrier that is no aligned 8 bytes of shared memory");
  auto& barrier = *static_cast<MemoryBarrier*>(p);
  if (!barrier.initialised()) stop("uses an mbarrier before it is initialised");
  return barrier;
}

void Machine::mbarrier_init(void* p, unsigned count) {
  if (reinterpret_cast<std::uintptr_t>(p) % 8 != 0 || !is_shared(*running_->block, p, 8))
    stop("an mbarrier that is no aligned 8 bytes of shared memory");
  if (count == 0 || count > 0x7fff) stop(fmt::format("an mbarrier of {} arrivals", count));
  MemoryBarrier barrier{};
  barrier.count = static_cast<unsigned short>(count);
  barrier.pending = static_cast<unsigned short>(count & 0x7fffu);
  std::memcpy(p, &barrier, sizeof barrier);
}

void Machine::advance(MemoryBarrier& barrier, unsigned arrivals, int announced, int landed) {
  if (arrivals > barrier.pending) stop("arrives more often at an mbarrier than its count");
  if (!barrier.advance(arrivals, announced, landed)) return;
  std::erase_if(memory_barrier_waiters_, [&](std::uint16_t index) {
    Thread& thread = threads_[index];
    if (thread.memory_barrier != &barrier || thread.parity == barrier.phase) return false;
    release(thread);
    return true;
  });
}

void Machine::mbarrier_arrive(unsigned address, unsigned bytes) {
  Block* block = nullptr;
  std::byte* const p = shared_pointer(address, block);
  if (block->ended == thread_count_) stop("arrives at an mbarrier of a block that has ended");
  advance(memory_barrier(*block, p), 1, static_cast<int>(bytes), 0);
}

void Machine::mbarrier_wait(void* p, unsigned parity) {
  Thread& self = *running_;
  const MemoryBarrier& barrier = memory_barrier(*self.block, p);
  parity &= 1u;
  if (barrier.phase != parity) return;
  self.state = State::kMemoryBarrier;
  self.memory_barrier = &barrier;
  self.parity = parity;
  memory_barrier_waiters_.push_back(self.index);
  leave(self);
}

// ---- Clusters

unsigned Machine::cluster_address(unsigned address, unsigned rank) {
  if (rank >= launch_->cluster)
    stop(fmt::format("block {} of a cluster of {}", rank, launch_->cluster));
  return (rank + 1) * kClusterStep + address % kClusterStep;
}

/// So many fewer threads have neither arrived nor ended.
void Machine::cluster_missing(unsigned threads) {
  cluster_missing_ -= threads;
  if (cluster_missing_ != 0) return;
  for (unsigned i = 0; i < launch_->cluster * thread_count_; ++i) {
    Thread& thread = threads_[i];
    thread.at_cluster = false;
    if (thread.state != State::kEnded) ++cluster_missing_;
    if (thread.state == State::kCluster) release(thread);
  }
}

void Machine::cluster_arrive() {
  Thread& self = *running_;
  if (self.at_cluster || self.in_cluster_barrier)
    stop("calls cluster_arrive() again before cluster_wait()");
  self.at_cluster = self.in_cluster_barrier = true;
  cluster_missing(1);
}

void Machine::cluster_wait() {
  Thread& self = *running_;
  if (!self.in_cluster_barrier) stop("calls cluster_wait() without cluster_arrive()");
  self.in_cluster_barrier = false;
  if (!self.at_cluster) return;  // all have come
  self.state = State::kCluster;
  leave(self);
}

// ---- Copies

bool Machine::land() {
  if (transfers_.empty()) return false;
  std::swap(transfers_[below(static_cast<unsigned>(transfers_.size()))], transfers_.back());
  const Transfer transfer = std::move(transfers_.back());
  transfers_.pop_back();
  std::size_t bytes = transfer.data.size();
  if (!transfer.data.empty()) std::memcpy(transfer.to, transfer.data.data(), bytes);
  std::vector<std::byte> row(transfer.row_bytes);
  for (const BoxRow& from : transfer.rows) {
    std::fill(row.begin(), row.end(), std::byte{0});
    if (from.from != nullptr) std::memcpy(row.data() + from.skipped, from.from, from.bytes);
    // Shared memory is 1024-byte aligned, in both kinds of address.
    for (std::size_t i = 0; i < row.size(); i += 16, bytes += 16) {
      const auto address =
          static_cast<unsigned>(transfer.to + bytes - (transfer.block->shared - kDynamicBase));
      const unsigned at = swizzled(address, transfer.swizzle_bytes);
      std::memcpy(transfer.block->shared + at - kDynamicBase, row.data() + i, 16);
    }
  }
  advance(*transfer.barrier, 0, 0, static_cast<int>(bytes));
  return true;
}

void Machine::store_async(unsigned to, unsigned barrier, const void* data, unsigned bytes) {
  Block *block = nullptr, *other = nullptr;
  std::byte* const p = shared_pointer(to, block);
  std::byte* const counted = shared_pointer(barrier, other);
  if (other != block) stop("st.async to one block, with a barrier of another");
  if (block->ended == thread_count_) stop("st.async to a block that has ended");
  if (!is_shared(*block, p, bytes) || reinterpret_cast<std::uintptr_t>(p) % bytes != 0)
    stop("st.async to an address that is misaligned or outside of shared memory");
  Transfer transfer;
  transfer.block = block;
  transfer.to = p;
  transfer.barrier = &memory_barrier(*block, counted);
  const auto* begin = static_cast<const std::byte*>(data);
  transfer.data.assign(begin, begin + bytes);
  std::memset(p, 0xff, bytes);
  transfers_.push_back(std::move(transfer));
}

void Machine::bulk_load(void* to, const void* from, void* barrier, unsigned bytes) {
  Block& own = *running_->block;
  auto* const p = static_cast<std::byte*>(to);
  const auto* const begin = static_cast<const unsigned char*>(from);
  if (!is_shared(own, to, bytes)) stop("a bulk copy to what is not the block's shared memory");
  if ((p - own.shared) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0 ||
      bytes % 16 != 0)
    stop("a bulk copy that is not aligned to 16 bytes");
  Transfer transfer;
  transfer.block = &own;
  transfer.to = p;
  transfer.barrier = &memory_barrier(own, barrier);
  transfer.rows = {{begin, 0, bytes}};
  transfer.row_bytes = bytes;
  std::memset(p, 0xff, bytes);
  transfers_.push_back(std::move(transfer));
}

// Nothing that owns memory may be alive when stop() leaves a fiber for good.
void Machine::tma_load(const TmaLoad& load) {
  std::string wrong = issue_tma(load);
  if (!wrong.empty()) stop(std::move(wrong));
}

std::string Machine::issue_tma(const TmaLoad& load) {
  if (reinterpret_cast<std::uintptr_t>(load.map) % 64 != 0)
    return "TMA: the map is not aligned to 64 bytes";
  TmaDescriptor map;
  std::memcpy(&map, load.map, sizeof map);
  Transfer transfer;
  std::string wrong;
  transfer.rows = rows_of(map, load, transfer.row_bytes, wrong);
  if (!wrong.empty()) return "TMA: " + wrong;
  transfer.swizzle_bytes = map.swizzle_bytes;
  const Block& own = *running_->block;
  const std::size_t bytes = transfer.rows.size() * transfer.row_bytes;
  auto* const to = static_cast<std::byte*>(load.to);
  auto* const barrier = static_cast<std::byte*>(load.barrier);
  if (!is_shared(own, to, bytes) || to < own.shared ||
      to + bytes > own.shared + launch_->shared_bytes)
    return "TMA: the box is not inside of the block's dynamic shared memory";
  if ((to - own.shared) % 128 != 0) return "TMA: the destination is not aligned to 128 bytes";
  const unsigned blocks = load.blocks == 0 ? 1u << own.rank : load.blocks;
  if (blocks >> launch_->cluster != 0) return "TMA: a multicast to blocks that the cluster has not";
  for (unsigned rank = 0; rank < launch_->cluster; ++rank) {
    if ((blocks >> rank & 1u) == 0) continue;
    Transfer one = transfer;
    one.block = &blocks_[rank];
    one.to = one.block->shared + (to - own.shared);
    std::byte* const counted = barrier >= own.shared && barrier < own.shared_end
                                   ? one.block->shared + (barrier - own.shared)
                                   : barrier;
    if (one.block->ended == thread_count_) return "TMA: writes to a block that has ended";
    if (reinterpret_cast<std::uintptr_t>(counted) % 8 != 0 || !is_shared(*one.block, counted, 8))
      return "TMA: an mbarrier that is no aligned 8 bytes of shared memory";
    one.barrier = reinterpret_cast<MemoryBarrier*>(counted);
    if (!one.barrier->initialised()) return "TMA: uses an mbarrier before it is initialised";
    std::memset(one.to, 0xff, bytes);
    transfers_.push_back(std::move(one));
  }
  return {};
}

// A store reads shared memory as late as possible: when its thread waits for that.
void Machine::tma_store(const TmaLoad& store) {
  std::string wrong = issue_tma_store(store);
  if (!wrong.empty()) stop(std::move(wrong));
}

std::string Machine::issue_tma_store(const TmaLoad& store) {
  if (reinterpret_cast<std::uintptr_t>(store.map) % 64 != 0)
    return "TMA: the map is not aligned to 64 bytes";
  TmaDescriptor map;
  std::memcpy(&map, store.map, sizeof map);
  BoxStore one;
  std::string wrong;
  one.rows = rows_of(map, store, one.row_bytes, wrong);
  if (!wrong.empty()) return "TMA: " + wrong;
  one.swizzle_bytes = map.swizzle_bytes;
  const Block& own = *running_->block;
  const std::size_t bytes = one.rows.size() * one.row_bytes;
  one.from = static_cast<const std::byte*>(store.to);
  if (!is_shared(own, store.to, bytes) || one.from < own.shared ||
      one.from + bytes > own.shared + launch_->shared_bytes)
    return "TMA: the box is not inside of the block's dynamic shared memory";
  if ((one.from - own.shared) % 128 != 0) return "TMA: the source is not aligned to 128 bytes";
  running_->stores.push_back(std::move(one));
  return {};
}

void Machine::bulk_wait(unsigned groups) {
  Thread& self = *running_;
  if (self.store_groups.size() <= groups) return;
  const auto done = static_cast<std::ptrdiff_t>(self.store_groups.size() - groups);
  const std::size_t end = self.store_groups[static_cast<std::size_t>(done - 1)];
  const std::byte* const shared = self.block->shared;
  for (std::size_t i = 0; i < end; ++i) {
    const BoxStore& store = self.stores[i];
    std::size_t at = 0;
    std::vector<std::byte> row(store.row_bytes);
    for (const BoxRow& to : store.rows) {
      for (std::size_t k = 0; k < row.size(); k += 16, at += 16) {
        const auto address = static_cast<unsigned>(store.from + at - (shared - kDynamicBase));
        std::memcpy(row.data() + k, shared + swizzled(address, store.swizzle_bytes) - kDynamicBase,
                    16);
      }
      if (to.from != nullptr)
        std::memcpy(const_cast<unsigned char*>(to.from), row.data() + to.skipped, to.bytes);
    }
  }
  self.stores.erase(self.stores.begin(), self.stores.begin() + static_cast<std::ptrdiff_t>(end));
  self.store_groups.erase(self.store_groups.begin(), self.store_groups.begin() + done);
  for (std::size_t& group : self.store_groups) group -= end;
}

// ---- Warpgroups

Warpgroup& Machine::warpgroup() {
  const Thread& self = *running_;
  if ((self.self.warp / 4 + 1) * 128 > thread_count_)
    stop("a product of a warpgroup in an incomplete one");
  return self.block->warpgroups[self.self.warp / 4];
}

bool Machine::gather_warpgroup(const char* what) {
  Thread& self = *running_;
  Warpgroup& group = warpgroup();
  self.what = what;
  if (group.arrived != 0 && std::strcmp(group.what, what) != 0)
    stop(fmt::format("is at {}, others of its warpgroup at {}", what, group.what));
  group.what = what;
  if (++group.arrived == 128) return true;
  self.state = State::kWarpgroup;
  leave(self);
  return false;
}

void Machine::release_warpgroup() {
  const Thread& self = *running_;
  warpgroup().arrived = 0;
  const unsigned first = self.self.warp / 4 * 4;
  for (unsigned warp = first; warp < first + 4; ++warp)
    release(*self.block, warp, warp == self.self.warp ? ~(1u << self.self.lane) : ~0u);
}

void Machine::wgmma(const Wgmma& product) {
  Thread& self = *running_;
  Warpgroup& group = warpgroup();
  if (group.arrived == 0) {
    group.product = product;
    group.fenced = true;
  }
  const Wgmma& first = group.product;
  if (product.a != first.a || product.b != first.b || product.accumulate != first.accumulate ||
      product.type != first.type || product.registers != first.registers)
    stop("wgmma whose operands are not those of the other threads of its warpgroup");
  group.d[self.self.linear % 128] = product.d;
  group.fenced = group.fenced && self.fenced;
  if (!gather_warpgroup("wgmma")) return;
  std::string wrong =
      group.products.issue(group.product, group.d, group.fenced, below(2) == 0, reader());
  if (!wrong.empty()) stop(std::move(wrong));
  release_warpgroup();
}

/// Of the running thread's block.
std::function<const void*(unsigned)> Machine::reader() const {
  return [this, block = running_->block](unsigned address) -> const void* {
    const std::byte* const p = block->shared + address - kDynamicBase;
    return address >= kDynamicBase && is_shared(*block, p, 16) ? p : nullptr;
  };
}

void Machine::wgmma_commit() {
  if (!gather_warpgroup("wgmma_commit")) return;
  warpgroup().products.commit();
  release_warpgroup();
}

void Machine::wgmma_wait(unsigned groups) {
  running_->fenced = false;
  if (!gather_warpgroup("wgmma_wait")) return;
  warpgroup().products.wait(groups, reader());
  release_warpgroup();
}

}  // namespace braze::simt
