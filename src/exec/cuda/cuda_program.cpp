#include "exec/cuda/cuda_program.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "exec/cuda/parallel.hpp"
#include "exec/logical.hpp"
#include "kernels/cuda/families.hpp"
#include "plan/choices.hpp"

namespace braze::cuda {
namespace {

void put(std::vector<std::byte>& to, std::size_t at, std::span<const std::byte> bytes) {
  ensure(at + bytes.size() <= to.size(), "an address lies inside its parameters");
  std::copy(bytes.begin(), bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

CudaProgram::CudaProgram(Plan plan, std::shared_ptr<Gpu> gpu, Compiler* compiler, int threads)
    : plan_(std::move(plan)), gpu_(compiler != nullptr ? std::move(gpu) : nullptr) {
  if (compiler == nullptr) return;
  if (gpu_ != nullptr) reserve_values();  // before much time is spent on what has no room
  emit(threads);
  if (gpu_ != nullptr) prepare_calls();
  compile(*compiler);
  if (gpu_ == nullptr) return;
  staging_ = std::make_unique<Staging>(*gpu_);
  upload_constants();
  reserve_workspaces();
  recording_ = record(own_borders(), recorded_);
  gpu_->wait();
}

void CudaProgram::emit(int threads) {
  kernels_.resize(plan_.kernels.size());
  if (plan_.graph.value_count() > 0) (void)plan_.graph.users(0);  // makes the index for all threads
  for_each_index(kernels_.size(), threads > 0 ? threads : cpu_device(0).units,
                 [this](std::size_t k) {
                   kernels_[k] = builder(plan_.kernels[k].family)(plan_, plan_.kernels[k]);
                 });
}

std::string CudaProgram::source(std::size_t k) const {
  return kernels_.empty() ? builder(plan_.kernels[k].family)(plan_, plan_.kernels[k]).source
                          : kernels_[k].source;
}

std::unique_ptr<Recording> CudaProgram::record(const Borders& borders,
                                               std::vector<std::size_t>& recorded) const {
  std::vector<Step> steps;
  // By kernel: the steps that are done when it is. One that has nothing to do hands on what it
  // would have waited for.
  std::vector<std::vector<std::size_t>> done(kernels_.size());
  std::map<std::int32_t, std::vector<std::size_t>> last;  // the same of each stream
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const KernelPlan& planned = plan_.kernels[k];
    std::vector<std::size_t> before = last[planned.stream];
    for (const std::int32_t other : planned.waits) {
      const std::vector<std::size_t>& more = done[static_cast<std::size_t>(other)];
      before.insert(before.end(), more.begin(), more.end());
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    if (!is_empty(k)) {
      Operands operands{{}, {}, workspaces_[static_cast<std::size_t>(planned.stream)].get(), {}};
      for (std::size_t i = 0; i < planned.group.inputs.size(); ++i) {
        std::byte* const constant = constant_inputs_[k][i];
        operands.inputs.push_back(constant != nullptr ? constant
                                                      : locate(planned.group.inputs[i], borders));
      }
      for (const ValueId id : planned.group.outputs)
        operands.outputs.push_back(locate(id, borders));
      Step next = step(k, operands);
      next.stream = static_cast<std::size_t>(planned.stream);
      for (const std::size_t other : before) {
        if (steps[other].stream != next.stream) next.waits.push_back(other);
      }
      before = {steps.size()};
      steps.push_back(std::move(next));
      recorded.push_back(k);
    }
    done[k] = before;
    last[planned.stream] = std::move(before);
  }
  return gpu_->record(std::move(steps));
}

CudaProgram::Borders CudaProgram::own_borders() const {
  Borders borders;
  for (const Border& input : inputs_) borders.inputs.push_back(input.device.get());
  for (const Border& output : outputs_) borders.outputs.push_back(output.device.get());
  return borders;
}

std::string CudaProgram::name_of(std::size_t k) const {
  const KernelPlan& kernel = plan_.kernels[k];
  constexpr std::size_t kMost = 8;
  std::vector<std::string> nodes = kernel.nodes;
  if (nodes.size() > kMost) {
    nodes.resize(kMost);
    nodes.emplace_back("...");
  }
  return nodes.empty() ? kernel.name : fmt::format("{} ({})", kernel.name, fmt::join(nodes, ", "));
}

void CudaProgram::prepare_calls() {
  calls_.resize(kernels_.size());
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    if (!kernels_[k].cudnn) continue;
    Prepared prepared = gpu_->prepare(*kernels_[k].cudnn);
    if (prepared.call == nullptr) {
      run_ourselves(k, std::move(prepared.why_not));
      continue;
    }
    kernels_[k].workspace_bytes = prepared.call->workspace_bytes();
    calls_[k] = std::move(prepared.call);
  }
}

void CudaProgram::run_ourselves(std::size_t k, std::string why_not) {
  KernelPlan& planned = plan_.kernels[k];
  const Registry own = registry();
  const Node& anchor = plan_.graph.node(planned.group.members.front().anchor);
  const auto row = std::ranges::find_if(own, [&](const KernelFamily& family) {
    return family.supports(plan_.graph, anchor, plan_.device).ok;
  });
  ensure(row != own.end() && row->epilogue && row->pitched && row->layouts == LayoutRule::kEach,
         "our own families run what cuDNN takes, as it lies in memory");
  planned.name = fmt::format("{}_{}", planned.name.substr(0, planned.name.find('_')), row->name);
  planned.family = row->name;
  planned.backend = row->backend;
  take(planned, ways_of(plan_, planned, own, {}).front());
  plan_.not_fused.push_back({planned.nodes, "cudnn-engine", std::move(why_not)});
  kernels_[k] = builder(planned.family)(plan_, planned);
}

void CudaProgram::compile(Compiler& compiler) {
  std::vector<std::string> sources;
  std::vector<std::size_t> of;
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    if (kernels_[k].host != nullptr || kernels_[k].cudnn || is_empty(k)) continue;
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
  constexpr std::size_t kAlignment = 256;
  std::size_t total = 0;
  const auto place = [&total](std::size_t bytes) {
    const std::size_t at = total;
    total += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  struct Upload {
    const void* data;
    std::size_t bytes, at;
  };
  std::vector<Upload> uploads;
  std::map<ValueId, std::size_t> values;  // those that kernels read as they are, once
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    for (const std::vector<std::byte>& bytes : kernels_[k].constants)
      uploads.push_back({bytes.data(), bytes.size(), place(bytes.size())});
    for (const ValueId id : plan_.kernels[k].group.inputs) {
      const Value& value = plan_.graph.value(id);
      if (!value.is_constant() || values.contains(id)) continue;
      values[id] = place(value.constant->bytes());
      uploads.push_back({value.constant->data(), value.constant->bytes(), values[id]});
    }
  }
  weights_ = gpu_->allocate(std::max<std::size_t>(total, 1),
                            fmt::format("the weights of network '{}'", plan_.graph.name));
  for (const Upload& upload : uploads)
    staging_->to_device(weights_.get() + upload.at, upload.data, upload.bytes);
  std::size_t next = 0;
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    constants_.emplace_back();
    constant_bytes_.emplace_back();
    for (std::vector<std::byte>& bytes : kernels_[k].constants) {
      constant_bytes_[k].push_back(bytes.size());
      while (uploads[next].data != bytes.data() || uploads[next].bytes != bytes.size()) ++next;
      constants_[k].push_back(weights_.get() + uploads[next++].at);
    }
    constant_inputs_.emplace_back();
    for (const ValueId id : plan_.kernels[k].group.inputs) {
      const auto found = values.find(id);
      constant_inputs_[k].push_back(found != values.end() ? weights_.get() + found->second
                                                          : nullptr);
    }
  }
  for (Kernel& kernel : kernels_) {
    for (std::vector<std::byte>& bytes : kernel.constants) bytes = {};
  }
}

void CudaProgram::reserve_workspaces() {
  std::vector<std::size_t> workspaces;
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const auto stream = static_cast<std::size_t>(plan_.kernels[k].stream);
    workspaces.resize(std::max(workspaces.size(), stream + 1), 1);
    workspaces[stream] = std::max(workspaces[stream], kernels_[k].workspace_bytes);
  }
  for (const std::size_t bytes : workspaces)
    workspaces_.push_back(gpu_->allocate(bytes, "kernels' workspace"));
}

void CudaProgram::reserve_values() {
  const auto at_least_one = [](std::int64_t bytes) {
    return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  };
  arena_ = gpu_->allocate(at_least_one(plan_.arena_bytes), "intermediate values");
  const auto border = [&](ValueId id, std::int64_t bytes, const char* what) {
    Border result;
    result.bytes = static_cast<std::size_t>(bytes);
    result.device = gpu_->allocate(at_least_one(bytes),
                                   fmt::format("{} '{}'", what, plan_.graph.value(id).name));
    return result;
  };
  const auto placed = [this](ValueId id) {
    return plan_.placements[static_cast<std::size_t>(id)].bytes;
  };
  for (const ValueId id : plan_.graph.inputs) inputs_.push_back(border(id, placed(id), "input"));
  for (const GraphOutput& output : plan_.graph.outputs)
    outputs_.push_back(border(output.value, placed(output.value), "output"));
}

std::byte* CudaProgram::locate(ValueId id, const Borders& borders) const {
  const Placement& placement = plan_.placements[static_cast<std::size_t>(id)];
  const auto index = static_cast<std::size_t>(placement.index);
  switch (placement.memory) {
    case braze::Memory::kInput:
      return borders.inputs[index] + placement.offset;
    case braze::Memory::kOutput:
      return borders.outputs[index] + placement.offset;
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
      return (operands.constants.empty() ? constants_[k][index] : operands.constants[index]) +
             address.offset;
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
  step.name = name_of(k);
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
  if (kernel.cudnn) {
    step.call = std::make_unique<CallStep>(CallStep{calls_[k], {}, operands.workspace});
    for (const Address& one : addresses_of(*kernel.cudnn))
      step.call->operands.push_back(address(one, k, operands));
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
         "the plan for '{}' was made without a GPU, or to be looked at only: it cannot be run",
         plan_.device.name);
  }
}

template <class Body>
void CudaProgram::guard(const Body& body, bool step_by_step) const {
  try {
    body();
  } catch (const Exception& exception) {
    staging_->drop();
    const Error& error = exception.error();
    if (error.code != ErrorCode::kDevice) throw;
    fail(error.code, "network '{}': {}{}", plan_.graph.name, error.message,
         step_by_step ? "" : " ('braze bench --per-kernel' names the kernel)");
  }
}

void CudaProgram::copy_in(std::span<const void* const> inputs) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    staging_->to_device(inputs_[i].device.get(), inputs[i], inputs_[i].bytes);
}

void CudaProgram::copy_out(std::span<void* const> outputs) const {
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    staging_->to_host(outputs[i], outputs_[i].device.get(), outputs_[i].bytes);
  staging_->finish();
  gpu_->wait();
}

void CudaProgram::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                      std::span<double> seconds) const {
  require_gpu();
  const std::lock_guard lock(mutex_);
  guard(
      [&] {
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
      },
      !seconds.empty());
}

std::shared_ptr<std::byte> CudaProgram::allocate_on_gpu(std::size_t bytes) const {
  require_gpu();
  return gpu_->allocate(std::max<std::size_t>(bytes, 1), "an output");
}

void CudaProgram::copy_from_gpu(std::span<const void* const> outputs, std::span<void* const> host,
                                void* stream) const {
  require_gpu();
  const std::lock_guard lock(mutex_);
  guard(
      [&] {
        gpu_->wait_for(stream);
        for (std::size_t i = 0; i < outputs_.size(); ++i)
          staging_->to_host(host[i], static_cast<const std::byte*>(outputs[i]), outputs_[i].bytes);
        staging_->finish();
        gpu_->wait();
      },
      false);
}

Recording* CudaProgram::recording_of(const Borders& borders, bool may_make) const {
  constexpr std::size_t kGuests = 8;
  constexpr std::uintptr_t kAlignment = 256;  // what Gpu::allocate gives, and kernels rely on
  const auto aligned = [](const std::byte* address) {
    return reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0;
  };
  if (!std::ranges::all_of(borders.inputs, aligned) ||
      !std::ranges::all_of(borders.outputs, aligned))
    return nullptr;
  const auto found = std::ranges::find(guests_, borders, &Guest::borders);
  if (found == guests_.end()) {
    if (!may_make) return nullptr;
    if (guests_.size() == kGuests) guests_.erase(guests_.begin());
    guests_.push_back({borders, nullptr});
    return nullptr;
  }
  std::rotate(found, found + 1, guests_.end());
  Guest& guest = guests_.back();
  if (guest.recording == nullptr && may_make) {
    std::vector<std::size_t> recorded;
    guest.recording = record(borders, recorded);
    gpu_->wait();  // until it is there: it is launched in another stream
  }
  return guest.recording.get();
}

void CudaProgram::run_on_gpu(std::span<const void* const> inputs, std::span<void* const> outputs,
                             void* stream) const {
  require_gpu();
  Borders borders;
  for (const void* input : inputs)  // kernels only read what their inputs hold
    borders.inputs.push_back(static_cast<std::byte*>(const_cast<void*>(input)));
  for (void* output : outputs) borders.outputs.push_back(static_cast<std::byte*>(output));
  const std::lock_guard lock(mutex_);
  guard(
      [&] {
        // The caller's graph keeps the order of what is captured, and cannot wait for what is not.
        const bool captured = gpu_->is_captured(stream);
        Recording* const in_place = recording_of(borders, !captured);
        if (!captured) gpu_->hold(stream);
        const auto run = [&](Recording& recording) {
          captured ? recording.capture_in(stream) : recording.run_in(stream);
        };
        if (in_place != nullptr) {
          run(*in_place);
        } else {
          for (std::size_t i = 0; i < inputs_.size(); ++i)
            gpu_->copy_in_stream(stream, inputs_[i].device.get(), inputs[i], inputs_[i].bytes);
          run(*recording_);
          for (std::size_t i = 0; i < outputs_.size(); ++i)
            gpu_->copy_in_stream(stream, outputs[i], outputs_[i].device.get(), outputs_[i].bytes);
        }
        if (captured) return;
        gpu_->wait_for(stream);
        // What a step on the host throws is told by this call, not by a later one.
        const auto on_host = [this](std::size_t k) { return kernels_[k].host != nullptr; };
        if (std::ranges::any_of(recorded_, on_host)) gpu_->wait();
      },
      false);
}

void CudaProgram::order_after(void* stream) const {
  require_gpu();
  const std::lock_guard lock(mutex_);
  guard([&] { gpu_->wait_for(stream); }, false);
}

void CudaProgram::order_before(void* stream) const {
  require_gpu();
  const std::lock_guard lock(mutex_);
  guard([&] { gpu_->hold(stream); }, false);
}

void CudaProgram::synchronize() const {
  require_gpu();
  const std::lock_guard lock(mutex_);
  guard([&] { gpu_->wait(); }, false);
}

void CudaProgram::time(std::span<const void* const> inputs, std::span<void* const> outputs,
                       std::span<double> seconds, std::size_t runs) const {
  require_gpu();
  const std::lock_guard lock(mutex_);
  guard(
      [&] {
        copy_in(inputs);
        recording_->run_repeatedly(seconds, runs);
        copy_out(outputs);
      },
      false);
}

std::vector<Tensor> CudaProgram::run_kernel(std::size_t k, std::span<const Tensor> values) const {
  require_gpu();
  const std::lock_guard lock(mutex_);
  const Group& group = plan_.kernels[k].group;
  const auto placement = [this](ValueId id) -> const Placement& {
    return plan_.placements[static_cast<std::size_t>(id)];
  };
  std::vector<Memory> memory;
  const auto allocate = [&](std::size_t bytes) {
    memory.push_back(gpu_->allocate(std::max<std::size_t>(bytes, 1), "a kernel's values"));
    return memory.back().get();
  };
  std::vector<Tensor> results;
  guard(
      [&] {
        Operands operands{
            {}, {}, workspaces_[static_cast<std::size_t>(plan_.kernels[k].stream)].get(), {}};
        for (std::size_t i = 0; i < group.inputs.size(); ++i) {
          const ValueId id = group.inputs[i];
          if (constant_inputs_[k][i] != nullptr) {
            operands.inputs.push_back(constant_inputs_[k][i]);
            continue;
          }
          const std::vector<std::byte> bytes =
              to_placed(values[static_cast<std::size_t>(id)], placement(id));
          operands.inputs.push_back(allocate(bytes.size()));
          staging_->to_device(operands.inputs.back(), bytes.data(), bytes.size());
        }
        for (const ValueId id : group.outputs)
          operands.outputs.push_back(allocate(static_cast<std::size_t>(placement(id).bytes)));
        if (!is_empty(k)) {
          std::vector<Step> steps;
          steps.push_back(step(k, operands));
          gpu_->record(std::move(steps))->run();
        }
        for (std::size_t i = 0; i < group.outputs.size(); ++i) {
          const ValueId id = group.outputs[i];
          std::vector<std::byte> host(static_cast<std::size_t>(placement(id).bytes));
          staging_->to_host(host.data(), operands.outputs[i], host.size());
          staging_->finish();
          gpu_->wait();
          const Value& value = plan_.graph.value(id);
          results.push_back(from_placed(host.data(), value.dtype, value.shape, placement(id)));
        }
      },
      true);
  return results;
}

}  // namespace braze::cuda
