// The streams that a graph of parallel branches is captured on.
//
// Kernels of one stream follow each other by programmatic edges: a kernel that overlaps its
// predecessor waits for the end of the whole of it before it touches anything that kernels make.
// So it ends after its predecessor, that after the one before, and where a kernel has ended, all
// before it in its stream have: each needs to wait for the last only. Edges between streams are
// full ones, from the end of a kernel to the beginning of another, and carry the same with them. A
// kernel that they lead to does not overlap anything.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exec/cuda/driver_gpu.hpp"

namespace braze::cuda {

class CaptureStreams {
 public:
  /// Before the capture begins on the context's stream: makes the other streams and the events that
  /// these steps need. They last as long as this.
  CaptureStreams(const std::shared_ptr<const GpuContext>& context, std::span<const Step> steps);
  CaptureStreams(const CaptureStreams&) = delete;
  CaptureStreams& operator=(const CaptureStreams&) = delete;
  ~CaptureStreams();

  /// A run begins: where streams fork whose first step waits for none.
  void begin();
  /// The stream to enqueue a step on; what it waits for comes first. In order of the steps.
  api::Stream enter(const Step& step);
  /// A step has been enqueued.
  void leave(std::size_t i, const Step& step) const;
  /// All have: what other streams did comes before the end.
  void join() const;

 private:
  void need_end(std::size_t step);
  void record(api::Event event, api::Stream stream) const;
  void wait(api::Stream stream, api::Event event) const;

  std::shared_ptr<const GpuContext> context_;
  std::vector<api::Stream> streams_;  // the first is the context's
  std::vector<bool> begun_;           // the stream is part of the capture
  std::unique_ptr<OwnedEvent> begin_;
  std::vector<std::unique_ptr<OwnedEvent>> ends_;  // of steps that others wait for
  std::vector<std::size_t> last_;                  // step of each other stream
};

}  // namespace braze::cuda
