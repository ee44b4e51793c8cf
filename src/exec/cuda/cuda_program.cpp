#include "exec/cuda/cuda_program.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "exec/logical.hpp"
#include "kernels/cuda/families.hpp"

namespace braze::cuda {
namespace {

/// Bytes that are copied to pinned memory before the device begins to fetch them.
constexpr std::size_t kChunk = std::size_t{1} << 20;

void put(std::vector<std::byte>& to, std::size_t at, std::span<const std::byte> bytes) {
  ensure(at + bytes.size() <= to.size(), "an address lies inside its parameters");
  std::copy(bytes.begin(), bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

CudaProgram::CudaProgram(Plan plan, std::shared_ptr<Gpu> gpu, Compiler& compiler)
    : plan_(std::move(plan)), gpu_(std::move(gpu)) {
  for (const KernelPlan& kernel : plan_.kernels)
    kernels_.push_back(builder(kernel.family)(plan_, kernel));
  compile(compiler);
  if (gpu_ == nullptr) return;
  upload_constants();
  reserve();
  std::vector<Step> steps;
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    if (is_empty(k)) continue;
    Operands operands{{}, {}, workspace_.get()};
    const Group& group = plan_.kernels[k].group;
    for (std::size_t i = 0; i < group.inputs.size(); ++i) {
      operands.inputs.push_back(constant_inputs_[k][i] != nullptr ? constant_inputs_[k][i].get()
                                                                  : locate(group.inputs[i]));
    }
    for (const ValueId id : group.outputs) operands.outputs.push_back(locate(id));
    steps.push_back(step(k, operands));
    recorded_.push_back(k);
  }
  recording_ = gpu_->record(std::move(steps));
  gpu_->wait();
}

void CudaProgram::compile(Compiler& compiler) {
  std::vector<std::string> sources;
  std::vector<std::size_t> of;
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    if (kernels_[k].host != nullptr || is_empty(k)) continue;
    sources.push_back(kernels_[k].source);
    of.push_back(k);
  }
  const std::vector<std::string> images = compiler.compile(sources);
  modules_.resize(kernels_.size());
  if (gpu_ == nullptr) return;
  for (std::size_t i = 0; i < of.size(); ++i)
    modules_[of[i]] = gpu_->load(images[i], kernels_[of[i]].entry);
}

bool CudaProgram::is_empty(std::size_t k) const {
  return kernels_[k].host == nullptr && kernels_[k].grid.x == 0;
}

void CudaProgram::upload_constants() {
  const auto upload = [this](const void* data, std::size_t bytes, const std::string& what) {
    Memory memory = gpu_->allocate(std::max<std::size_t>(bytes, 1), what);
    const std::shared_ptr<std::byte> pinned = gpu_->allocate_host(std::max<std::size_t>(bytes, 1));
    std::memcpy(pinned.get(), data, bytes);
    gpu_->copy_in(memory.get(), pinned.get(), bytes);
    gpu_->wait();
    return memory;
  };
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    constants_.emplace_back();
    for (std::vector<std::byte>& bytes : kernels_[k].constants) {
      constants_[k].push_back(
          upload(bytes.data(), bytes.size(), fmt::format("weights of {}", plan_.kernels[k].name)));
      bytes = {};
    }
    constant_inputs_.emplace_back();
    for (const ValueId id : plan_.kernels[k].group.inputs) {
      const Value& value = plan_.graph.value(id);
      constant_inputs_[k].push_back(
          value.is_constant()
              ? upload(value.constant->data(), value.constant->bytes(), "a constant")
              : nullptr);
    }
  }
}

void CudaProgram::reserve() {
  std::size_t workspace = 0;
  for (const Kernel& kernel : kernels_) workspace = std::max(workspace, kernel.workspace_bytes);
  const auto at_least_one = [](std::int64_t bytes) {
    return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  };
  arena_ = gpu_->allocate(at_least_one(plan_.arena_bytes), "intermediate values");
  workspace_ = gpu_->allocate(std::max<std::size_t>(workspace, 1), "kernels' workspace");
  const auto border = [&](ValueId id, std::int64_t bytes, const char* what) {
    Border result;
    result.bytes = static_cast<std::size_t>(bytes);
    result.device = gpu_->allocate(at_least_one(bytes),
                                   fmt::format("{} '{}'", what, plan_.graph.value(id).name));
    result.host = gpu_->allocate_host(at_least_one(bytes));
    return result;
  };
  const auto placed = [this](ValueId id) {
    return plan_.placements[static_cast<std::size_t>(id)].bytes;
  };
  for (const ValueId id : plan_.graph.inputs) inputs_.push_back(border(id, placed(id), "input"));
  for (const GraphOutput& output : plan_.graph.outputs)
    outputs_.push_back(border(output.value, placed(output.value), "output"));
}

std::byte* CudaProgram::locate(ValueId id) const {
  const Placement& placement = plan_.placements[static_cast<std::size_t>(id)];
  const auto index = static_cast<std::size_t>(placement.index);
  switch (placement.memory) {
    case braze::Memory::kInput:
      return inputs_[index].device.get() + placement.offset;
    case braze::Memory::kOutput:
      return outputs_[index].device.get() + placement.offset;
    case braze::Memory::kArena:
      return arena_.get() + placement.offset;
    case braze::Memory::kConstant:
    case braze::Memory::kNone:
      break;
  }
  return nullptr;
}

std::byte* CudaProgram::address(const Address& address, std::size_t k,
                                const Operands& operands) const {
  const auto index = static_cast<std::size_t>(address.index);
  switch (address.of) {
    case Address::Of::kInput:
      return operands.inputs[index] + address.offset;
    case Address::Of::kOutput:
      return operands.outputs[index] + address.offset;
    case Address::Of::kConstant:
      return constants_[k][index].get() + address.offset;
    case Address::Of::kWorkspace:
      return operands.workspace + address.offset;
    case Address::Of::kNull:
      break;
  }
  return nullptr;
}

Step CudaProgram::step(std::size_t k, const Operands& operands) const {
  const Kernel& kernel = kernels_[k];
  Step step;
  if (kernel.host != nullptr) {
    step.host = std::make_unique<HostStep>();
    const Group& group = plan_.kernels[k].group;
    const auto copy = [this](ValueId id, const std::byte* device) {
      const Value& value = plan_.graph.value(id);
      const std::int64_t bytes = value.is_constant()
                                     ? static_cast<std::int64_t>(value.constant->bytes())
                                     : plan_.placements[static_cast<std::size_t>(id)].bytes;
      return HostStep::Copy{device, static_cast<std::size_t>(bytes)};
    };
    for (std::size_t i = 0; i < group.inputs.size(); ++i)
      step.host->inputs.push_back(copy(group.inputs[i], operands.inputs[i]));
    for (std::size_t i = 0; i < group.outputs.size(); ++i)
      step.host->outputs.push_back(copy(group.outputs[i], operands.outputs[i]));
    step.host->run = [&kernel](std::span<const void* const> inputs,
                               std::span<void* const> outputs) {
      kernel.host->run({.inputs = inputs, .outputs = outputs});
    };
    return step;
  }
  step.launch.kernel = &kernel;
  step.launch.module = modules_[k];
  step.launch.parameters = kernel.parameters;
  for (const Pointer& pointer : kernel.pointers) {
    const std::byte* const target = address(pointer.address, k, operands);
    put(step.launch.parameters, pointer.at, std::as_bytes(std::span(&target, 1)));
  }
  for (const TensorMap& map : kernel.maps)
    put(step.launch.parameters, map.at, gpu_->encode(map, address(map.address, k, operands)));
  return step;
}

void CudaProgram::require_gpu() const {
  if (gpu_ == nullptr) {
    fail(ErrorCode::kDevice,
         "device '{}' names an architecture, not a GPU: its plan can be made "
         "and compiled, not run",
         plan_.device.name);
  }
}

void CudaProgram::copy_in(std::span<const void* const> inputs) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Border& border = inputs_[i];
    for (std::size_t at = 0; at < border.bytes; at += kChunk) {
      const std::size_t bytes = std::min(kChunk, border.bytes - at);
      std::memcpy(border.host.get() + at, static_cast<const std::byte*>(inputs[i]) + at, bytes);
      gpu_->copy_in(border.device.get() + at, border.host.get() + at, bytes);
    }
  }
}

void CudaProgram::copy_out(std::span<void* const> outputs) const {
  for (const Border& border : outputs_) {
    if (border.bytes > 0) gpu_->copy_out(border.host.get(), border.device.get(), border.bytes);
  }
  gpu_->wait();
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].bytes > 0) std::memcpy(outputs[i], outputs_[i].host.get(), outputs_[i].bytes);
  }
}

void CudaProgram::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                      std::span<double> seconds) const {
  require_gpu();
  const std::lock_guard lock(mutex_);
  copy_in(inputs);
  if (seconds.empty()) {
    recording_->run();
  } else {
    std::vector<double> times(recorded_.size());
    recording_->run_timed(times);
    std::fill(seconds.begin(), seconds.end(), 0.0);
    for (std::size_t i = 0; i < recorded_.size(); ++i) seconds[recorded_[i]] = times[i];
  }
  copy_out(outputs);
}

void CudaProgram::time(std::span<const void* const> inputs, std::span<void* const> outputs,
                       std::span<double> seconds) const {
  require_gpu();
  const std::lock_guard lock(mutex_);
  copy_in(inputs);
  recording_->run_repeatedly(seconds);
  copy_out(outputs);
}

std::vector<Tensor> CudaProgram::run_kernel(std::size_t k, std::span<const Tensor> values) const {
  require_gpu();
  const std::lock_guard lock(mutex_);
  const Group& group = plan_.kernels[k].group;
  const auto placement = [this](ValueId id) -> const Placement& {
    return plan_.placements[static_cast<std::size_t>(id)];
  };
  std::vector<Memory> memory;
  std::vector<std::shared_ptr<std::byte>> pinned;
  const auto allocate = [&](std::size_t bytes) {
    memory.push_back(gpu_->allocate(std::max<std::size_t>(bytes, 1), "a kernel's values"));
    pinned.push_back(gpu_->allocate_host(std::max<std::size_t>(bytes, 1)));
  };
  Operands operands{{}, {}, workspace_.get()};
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    if (constant_inputs_[k][i] != nullptr) {
      operands.inputs.push_back(constant_inputs_[k][i].get());
      continue;
    }
    const ValueId id = group.inputs[i];
    const std::vector<std::byte> bytes =
        to_placed(values[static_cast<std::size_t>(id)], placement(id));
    allocate(bytes.size());
    std::copy(bytes.begin(), bytes.end(), pinned.back().get());
    gpu_->copy_in(memory.back().get(), pinned.back().get(), bytes.size());
    operands.inputs.push_back(memory.back().get());
  }
  const std::size_t first_output = memory.size();
  for (const ValueId id : group.outputs) {
    allocate(static_cast<std::size_t>(placement(id).bytes));
    operands.outputs.push_back(memory.back().get());
  }
  if (!is_empty(k)) {
    std::vector<Step> steps;
    steps.push_back(step(k, operands));
    const std::unique_ptr<Recording> recording = gpu_->record(std::move(steps));
    recording->run();
    gpu_->wait();
  }
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < group.outputs.size(); ++i) {
    const ValueId id = group.outputs[i];
    std::byte* const host = pinned[first_output + i].get();
    gpu_->copy_out(host, operands.outputs[i], static_cast<std::size_t>(placement(id).bytes));
    gpu_->wait();
    const Value& value = plan_.graph.value(id);
    results.push_back(from_placed(host, value.dtype, value.shape, placement(id)));
  }
  return results;
}

}  // namespace braze::cuda
