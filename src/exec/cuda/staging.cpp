#include "exec/cuda/staging.hpp"

#include <algorithm>
#include <cstring>

namespace braze::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Staging::Staging(Gpu& gpu, std::size_t chunk, std::size_t chunks)
    : gpu_(gpu), chunk_(aligned(chunk)), chunks_(chunks) {
  for (Chunk& one : chunks_) {
    one.memory = gpu_.allocate_host(chunk_);
    one.mark = gpu_.make_mark();
  }
}

Staging::Chunk& Staging::open() {
  Chunk& full = chunks_[current_];
  if (full.used < chunk_) return full;
  full.mark->set();
  full.marked = true;
  current_ = (current_ + 1) % chunks_.size();
  settle(chunks_[current_]);
  return chunks_[current_];
}

void Staging::settle(Chunk& chunk) {
  if (chunk.used == 0) return;
  if (!chunk.marked) chunk.mark->set();
  chunk.mark->wait();
  for (const Arrival& arrival : chunk.arrivals)
    std::memcpy(arrival.to, chunk.memory.get() + arrival.at, arrival.bytes);
  chunk.arrivals.clear();
  chunk.used = 0;
  chunk.marked = false;
}

void Staging::to_device(std::byte* device, const void* host, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(host);
  for (std::size_t done = 0; done < bytes;) {
    Chunk& chunk = open();
    const std::size_t part = std::min(bytes - done, chunk_ - chunk.used);
    std::memcpy(chunk.memory.get() + chunk.used, from + done, part);
    gpu_.copy_in(device + done, chunk.memory.get() + chunk.used, part);
    chunk.used += aligned(part);
    done += part;
  }
}

void Staging::to_host(void* host, const std::byte* device, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(host);
  for (std::size_t done = 0; done < bytes;) {
    Chunk& chunk = open();
    const std::size_t part = std::min(bytes - done, chunk_ - chunk.used);
    gpu_.copy_out(chunk.memory.get() + chunk.used, device + done, part);
    chunk.arrivals.push_back({to + done, chunk.used, part});
    chunk.used += aligned(part);
    done += part;
  }
}

void Staging::finish() {
  // Oldest first.
  for (std::size_t i = 1; i <= chunks_.size(); ++i)
    settle(chunks_[(current_ + i) % chunks_.size()]);
}

void Staging::drop() {
  for (Chunk& chunk : chunks_) chunk.arrivals.clear();
}

}  // namespace braze::cuda
