// Barriers of threads, meetings of warps, shared memory and asynchronous copies to it.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "support/simt/machine_impl.hpp"

namespace braze::simt {

/// Whether the barrier is complete with one more thread.
bool Machine::arrive_at(unsigned id, unsigned count) {
  if (id >= kBarriers) stop(fmt::format("barrier {}: there are {}", id, kBarriers));
  if (count % 32 != 0 && count != thread_count_)
    stop(fmt::format("barrier {} for {} threads, no multiple of 32", id, count));
  Barrier& barrier = running_->block->barriers[id];
  if (barrier.arrived == 0) barrier.expected = count;
  if (barrier.expected != count)
    stop(fmt::format("barrier {} for {} threads, where others said {}", id, count,
                     barrier.expected));
  return ++barrier.arrived == barrier.expected;
}

void Machine::open(Block& block, Barrier& barrier) {
  for (unsigned w = 0; w < warp_count_; ++w) {
    for (unsigned lanes = barrier.waiting[w]; lanes != 0; lanes &= lanes - 1)
      threads_[block.first + 32 * w + static_cast<unsigned>(std::countr_zero(lanes))].result =
          barrier.value;
  }
  barrier.arrived = 0;
  release(block, barrier.waiting);
}

int Machine::barrier(unsigned id, unsigned count, Reduction reduction, int predicate,
                     const char* file, int line) {
  Thread& self = *running_;
  Block& block = *self.block;
  const bool first = id < kBarriers && block.barriers[id].arrived == 0;
  const bool complete = arrive_at(id, count == 0 ? thread_count_ : count);
  Barrier& barrier = block.barriers[id];
  if (first) {
    barrier.reduction = reduction;
    barrier.value = reduction == Reduction::kAnd ? 1 : 0;
    barrier.file = file;
    barrier.line = line;
  } else if (count == 0 && (barrier.line != line ||
                            (barrier.file != file && std::strcmp(barrier.file, file) != 0))) {
    stop(fmt::format("waits at __syncthreads() of {}:{}, others of its block at {}:{}", file, line,
                     barrier.file, barrier.line));
  }
  if (reduction == Reduction::kCount) barrier.value += predicate != 0;
  if (reduction == Reduction::kAnd) barrier.value &= static_cast<int>(predicate != 0);
  if (reduction == Reduction::kOr) barrier.value |= static_cast<int>(predicate != 0);
  self.state = State::kBarrier;
  self.barrier = static_cast<std::uint8_t>(id);
  self.file = file;
  self.line = line;
  barrier.waiting[self.self.warp] |= 1u << self.self.lane;
  if (complete) open(block, barrier);
  leave(self);
  return self.result;
}

void Machine::arrive(unsigned id, unsigned count) {
  if (arrive_at(id, count)) open(*running_->block, running_->block->barriers[id]);
}

void Machine::meet(Meeting meeting, void* part, unsigned mask) {
  Thread& self = *running_;
  const Block& block = *self.block;
  Warp& warp = self.block->warps[self.self.warp];
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
    const Thread& other = threads_[block.first + 32 * self.self.warp + lane];
    if (other.meeting != meeting || other.mask != mask)
      stop(fmt::format("is at {} with mask {:#x}, lane {} of its warp at {} with mask {:#x}",
                       name_of(meeting), mask, lane, name_of(other.meeting), other.mask));
  }
  if (const char *wrong = hold(meeting, warp.parts, mask, [](const void* p, unsigned bytes) {
        return machine().is_shared(*machine().running_->block, p, bytes);
      }))
    stop(fmt::format("{}: {}", name_of(meeting), wrong));
  warp.arrived &= ~mask;
  release(block, self.self.warp, mask & ~(1u << self.self.lane));
  self.state = State::kReady;
}

unsigned Machine::active_lanes() const {
  const Warp& warp = running_->block->warps[running_->self.warp];
  return warp.lanes & ~warp.ended;
}

// ---- Shared memory

bool Machine::is_shared(const Block& block, const void* p, std::size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(p);
  const auto* statics = reinterpret_cast<const std::byte*>(launch_->module->statics);
  const auto* statics_end = reinterpret_cast<const std::byte*>(launch_->module->statics_end);
  return (at >= block.shared && at + bytes <= block.shared + launch_->shared_bytes) ||
         (at >= statics && at + bytes <= statics_end);
}

unsigned Machine::shared_address(const void* p) {
  const auto* at = static_cast<const std::byte*>(p);
  const Block& block = *running_->block;
  if (at >= block.shared && at <= block.shared_end)
    return kDynamicBase + static_cast<unsigned>(at - block.shared);
  if (!is_shared(block, p, 0)) stop("takes the shared address of something that is not shared");
  return kStaticBase +
         static_cast<unsigned>(static_cast<const unsigned char*>(p) - launch_->module->statics);
}

std::byte* Machine::shared_pointer(unsigned address, Block*& block) {
  block = running_->block;
  if (address >= kClusterStep) {
    const unsigned rank = address / kClusterStep - 1;
    if (rank >= launch_->cluster) stop(fmt::format("no address of the cluster: {:#x}", address));
    block = &blocks_[rank];
    address %= kClusterStep;
  }
  return address < kStaticBase
             ? block->shared + address - kDynamicBase
             : reinterpret_cast<std::byte*>(launch_->module->statics) + (address - kStaticBase);
}

// ---- Asynchronous copies land when their thread waits; until then there is garbage

void Machine::copy_async(const Copy& copy) {
  if (reinterpret_cast<std::uintptr_t>(copy.to) % copy.bytes != 0 ||
      (copy.valid != 0 && reinterpret_cast<std::uintptr_t>(copy.from) % copy.bytes != 0))
    stop(fmt::format("cp.async of {} bytes from {} to {}: not aligned", copy.bytes, copy.from,
                     copy.to));
  if (!is_shared(*running_->block, copy.to, copy.bytes))
    stop("cp.async to an address outside of the block's shared memory");
  if (copy.valid > copy.bytes)
    stop(fmt::format("cp.async of {} bytes, {} of them valid", copy.bytes, copy.valid));
  std::memset(copy.to, 0xff, copy.bytes);
  running_->copies.push_back(copy);
}

void Machine::copy_wait(unsigned groups) {
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

}  // namespace braze::simt
