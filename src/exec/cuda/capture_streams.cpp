#include "exec/cuda/capture_streams.hpp"

namespace braze::cuda {

CaptureStreams::CaptureStreams(const std::shared_ptr<const GpuContext>& context,
                               std::span<const Step> steps)
    : context_(context), streams_{context->stream()}, begun_{true}, ends_(steps.size()) {
  std::vector<std::size_t> last = {0};  // step of each stream, and 1
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].stream >= last.size()) last.resize(steps[i].stream + 1, 0);
    last[steps[i].stream] = i + 1;
    for (const std::size_t other : steps[i].waits) {
      ensure(other < i, "a step waits for one before it");
      need_end(other);
    }
  }
  if (last.size() == 1) return;
  begin_ = std::make_unique<OwnedEvent>(context_, api::kEventDisableTiming);
  for (std::size_t s = 1; s < last.size(); ++s) {
    if (last[s] == 0) continue;
    need_end(last[s] - 1);
    last_.push_back(last[s] - 1);
  }
  begun_.resize(last.size(), false);
  while (streams_.size() < last.size()) {
    api::Stream stream = nullptr;
    const api::Result result = context_->driver().stream_create(&stream, api::kStreamNonBlocking);
    if (result == api::kSuccess) {
      streams_.push_back(stream);
      continue;
    }
    for (std::size_t s = 1; s < streams_.size(); ++s)
      context_->driver().stream_destroy(streams_[s]);
    context_->check(result, "making a stream");
  }
}

CaptureStreams::~CaptureStreams() {
  for (std::size_t s = 1; s < streams_.size(); ++s) context_->driver().stream_destroy(streams_[s]);
}

void CaptureStreams::begin() {
  std::fill(begun_.begin() + 1, begun_.end(), false);
  if (begin_ != nullptr) record(begin_->get(), streams_[0]);
}

api::Stream CaptureStreams::enter(const Step& step) {
  const api::Stream stream = streams_[step.stream];
  if (!begun_[step.stream] && step.waits.empty()) wait(stream, begin_->get());
  begun_[step.stream] = true;
  for (const std::size_t other : step.waits) wait(stream, ends_[other]->get());
  return stream;
}

void CaptureStreams::leave(std::size_t i, const Step& step) const {
  if (ends_[i] != nullptr) record(ends_[i]->get(), streams_[step.stream]);
}

void CaptureStreams::join() const {
  for (const std::size_t step : last_) wait(streams_[0], ends_[step]->get());
}

void CaptureStreams::need_end(std::size_t step) {
  if (ends_[step] == nullptr)
    ends_[step] = std::make_unique<OwnedEvent>(context_, api::kEventDisableTiming);
}

void CaptureStreams::record(api::Event event, api::Stream stream) const {
  context_->check(context_->driver().event_record(event, stream), "recording a fork");
}

void CaptureStreams::wait(api::Stream stream, api::Event event) const {
  context_->check(context_->driver().stream_wait_event(stream, event, 0), "recording a join");
}

}  // namespace braze::cuda
