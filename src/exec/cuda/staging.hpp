// Copies between ordinary host memory and a GPU, through a few chunks of pinned memory: while one
// chunk is on its way, the host fills or empties another.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "exec/cuda/gpu.hpp"

namespace braze::cuda {

class Staging {
 public:
  static constexpr std::size_t kChunk = std::size_t{512} << 10;
  static constexpr std::size_t kChunks = 4;

  explicit Staging(Gpu& gpu, std::size_t chunk = kChunk, std::size_t chunks = kChunks);

  /// Enqueues the copy; `host` has been read when it returns.
  void to_device(std::byte* device, const void* host, std::size_t bytes);
  /// Enqueues the copy; `host` holds it after finish().
  void to_host(void* host, const std::byte* device, std::size_t bytes);
  /// Waits for all copies to the host. kDevice if any of what was enqueued before failed.
  void finish();
  /// Forgets what is on its way to the host, after an error.
  void drop();

 private:
  /// A part of a chunk that the host is still to take.
  struct Arrival {
    std::byte* to = nullptr;
    std::size_t at = 0, bytes = 0;
  };
  struct Chunk {
    std::shared_ptr<std::byte> memory;
    std::unique_ptr<Mark> mark;
    std::size_t used = 0;
    bool marked = false;  // its copies are done when the mark is reached
    std::vector<Arrival> arrivals;
  };

  /// The chunk to put bytes into, with room for at least one.
  Chunk& open();
  void settle(Chunk& chunk);

  Gpu& gpu_;
  std::size_t chunk_;
  std::vector<Chunk> chunks_;
  std::size_t current_ = 0;
};

}  // namespace braze::cuda
