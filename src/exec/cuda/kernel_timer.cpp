// Times single kernels on a GPU: launches one after another, recorded as a network's are.
//
// What a kernel finds in the last-level cache is to be what it finds there in the network: its
// inputs, which were just written, and its weights only if those of all kernels fit. So all
// launches read and write the same values, but each has a copy of the weights if the network is
// larger than the cache.
#include <algorithm>
#include <cmath>

#include "exec/cuda/cuda_program.hpp"
#include "exec/numbers.hpp"

namespace braze::cuda {
namespace {

constexpr int kFewestLaunches = 4;
constexpr int kMostLaunches = 20;
constexpr double kRecordingUs = 1000;  // long against what starting a graph takes

}  // namespace

class CudaProgram::Timer final : public KernelTimer {
 public:
  Timer(const CudaProgram& program, std::size_t k) : program_(program), operands_{{}, {}, {}, {}} {
    const Group& group = program.plan_.kernels[k].group;
    const auto stream = static_cast<std::size_t>(program.plan_.kernels[k].stream);
    operands_.workspace = program.workspaces_[stream].get();
    for (std::size_t i = 0; i < group.inputs.size(); ++i) {
      std::byte* const constant = program.constant_inputs_[k][i];
      operands_.inputs.push_back(constant != nullptr ? constant : value(group.inputs[i]));
    }
    for (const ValueId id : group.outputs) operands_.outputs.push_back(value(id));
  }

  void time(std::size_t k, std::span<double> seconds) override {
    std::ranges::fill(seconds, 0.0);
    if (program_.is_empty(k)) return;
    const std::lock_guard lock(program_.mutex_);
    const auto launches = static_cast<std::size_t>(
        std::clamp<double>(kRecordingUs / std::max(program_.plan_.kernels[k].est_us, 1.0),
                           kFewestLaunches, kMostLaunches));
    const std::vector<std::vector<Memory>> weights = copies_of_weights(k, launches - 1);
    std::vector<Step> steps;
    for (std::size_t i = 0; i < launches; ++i) {
      operands_.constants.clear();
      if (i > 0 && !weights.empty()) {
        for (const Memory& memory : weights[i - 1]) operands_.constants.push_back(memory.get());
      }
      steps.push_back(program_.step(k, operands_));
    }
    const std::unique_ptr<Recording> recording = program_.gpu_->record(std::move(steps));
    recording->run_repeatedly(seconds, 1);
    for (double& time : seconds) time /= static_cast<double>(launches);
  }

 private:
  std::byte* value(ValueId id) {
    const auto bytes =
        static_cast<std::size_t>(program_.plan_.placements[static_cast<std::size_t>(id)].bytes);
    if (bytes == 0) return nullptr;
    values_.push_back(program_.gpu_->allocate(bytes, "a kernel's values"));
    std::byte* const begin = values_.back().get();
    std::vector<std::byte> numbers(std::min(bytes, kChunk));
    fill_with_numbers(numbers, program_.plan_.graph.value(id).dtype);
    for (std::size_t at = 0; at < bytes; at += kChunk)
      program_.staging_->to_device(begin + at, numbers.data(), std::min(kChunk, bytes - at));
    program_.gpu_->wait();
    return begin;
  }

  /// Of kernel k's weights, if the network's are more than the cache holds; else none.
  [[nodiscard]] std::vector<std::vector<Memory>> copies_of_weights(std::size_t k,
                                                                   std::size_t count) const {
    if (network_bytes() <= program_.plan_.device.cache_bytes) return {};
    std::vector<std::vector<Memory>> copies(count);
    for (std::size_t c = 0; c < program_.constants_[k].size(); ++c) {
      std::vector<std::byte> host(program_.constant_bytes_[k][c]);
      program_.staging_->to_host(host.data(), program_.constants_[k][c], host.size());
      program_.staging_->finish();
      for (std::vector<Memory>& copy : copies) {
        copy.push_back(
            program_.gpu_->allocate(std::max<std::size_t>(host.size(), 1), "a copy of weights"));
        program_.staging_->to_device(copy.back().get(), host.data(), host.size());
      }
    }
    program_.gpu_->wait();
    return copies;
  }

  /// Weights as the model has them, and the intermediate values.
  [[nodiscard]] double network_bytes() const {
    const Graph& graph = program_.plan_.graph;
    auto bytes = static_cast<double>(program_.plan_.arena_bytes);
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      if (graph.value(id).is_constant())
        bytes += static_cast<double>(graph.value(id).constant->bytes());
    }
    return bytes;
  }

  static constexpr std::size_t kChunk = std::size_t{1} << 20;

  const CudaProgram& program_;
  std::vector<Memory> values_;
  Operands operands_;
};

std::unique_ptr<KernelTimer> CudaProgram::timer(std::size_t k) const {
  require_gpu();
  return std::make_unique<Timer>(*this, k);
}

}  // namespace braze::cuda
