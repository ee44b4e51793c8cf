#include "exec/cpu_program.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/error.hpp"
#include "exec/logical.hpp"
#include "exec/memory.hpp"
#include "kernels/cpu/families.hpp"

namespace braze {

std::shared_ptr<std::byte> reserve(std::size_t bytes, const char* what) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t rounded = (bytes / kAlignment + 1) * kAlignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (data == nullptr)
    fail(ErrorCode::kOutOfMemory, "cannot allocate {} bytes for the {}", bytes, what);
  return {data, std::free};
}

CpuProgram::CpuProgram(Plan plan) : plan_(std::move(plan)) {
  const auto threads = static_cast<std::size_t>(std::max(plan_.device.units, 1));
  if (threads > 1) {
    pool_.reset(pthreadpool_create(threads), pthreadpool_destroy);
    if (pool_ == nullptr) fail(ErrorCode::kOutOfMemory, "cannot start {} worker threads", threads);
  }
  for (const KernelPlan& kernel : plan_.kernels) {
    Step step;
    step.kernel = cpu::builder(kernel.family)(plan_, kernel);
    for (const ValueId id : kernel.group.inputs) {
      step.inputs.push_back(plan_.placements[static_cast<std::size_t>(id)]);
      const Value& value = plan_.graph.value(id);
      step.constants.push_back(value.is_constant() ? value.constant->data() : nullptr);
    }
    for (const ValueId id : kernel.group.outputs)
      step.outputs.push_back(plan_.placements[static_cast<std::size_t>(id)]);
    workspace_bytes_ = std::max(workspace_bytes_, step.kernel->workspace_bytes(threads));
    steps_.push_back(std::move(step));
  }
  const Lease first(*this);  // memory for one run at a time is reserved now
}

std::unique_ptr<CpuProgram::Context> CpuProgram::make_context() const {
  auto context = std::make_unique<Context>();
  context->arena = reserve(static_cast<std::size_t>(plan_.arena_bytes), "intermediate values");
  context->workspace = reserve(workspace_bytes_, "kernels' workspace");
  std::size_t most_inputs = 0;
  std::size_t most_outputs = 0;
  for (const Step& step : steps_) {
    most_inputs = std::max(most_inputs, step.inputs.size());
    most_outputs = std::max(most_outputs, step.outputs.size());
  }
  context->in.resize(most_inputs);
  context->out.resize(most_outputs);
  return context;
}

CpuProgram::Lease::Lease(const CpuProgram& program) : program_(program) {
  {
    const std::lock_guard lock(program.mutex_);
    if (!program.idle_.empty()) {
      context_ = std::move(program.idle_.back());
      program.idle_.pop_back();
      return;
    }
  }
  std::unique_ptr<Context> made = program.make_context();
  const std::lock_guard lock(program.mutex_);
  program.idle_.reserve(program.contexts_ + 1);
  ++program.contexts_;
  context_ = std::move(made);
}

CpuProgram::Lease::~Lease() {
  const std::lock_guard lock(program_.mutex_);
  program_.idle_.push_back(std::move(context_));
}

void CpuProgram::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                     std::span<double> seconds) const {
  const Lease context(*this);
  const auto locate = [&](const Placement& placement) -> std::byte* {
    switch (placement.memory) {
      case Memory::kInput:  // kernels only read what their `inputs` hold
        return static_cast<std::byte*>(
                   const_cast<void*>(inputs[static_cast<std::size_t>(placement.index)])) +
               placement.offset;
      case Memory::kOutput:
        return static_cast<std::byte*>(outputs[static_cast<std::size_t>(placement.index)]) +
               placement.offset;
      case Memory::kArena:
        return context->arena.get() + placement.offset;
      case Memory::kConstant:
      case Memory::kNone:
        break;
    }
    return nullptr;
  };
  auto begin = std::chrono::steady_clock::now();
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    const Step& step = steps_[k];
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      context->in[i] = step.constants[i] != nullptr ? step.constants[i] : locate(step.inputs[i]);
    }
    for (std::size_t i = 0; i < step.outputs.size(); ++i) context->out[i] = locate(step.outputs[i]);
    step.kernel->run({.inputs = std::span(context->in).first(step.inputs.size()),
                      .outputs = std::span(context->out).first(step.outputs.size()),
                      .workspace = context->workspace.get(),
                      .pool = pool_.get()});
    if (seconds.empty()) continue;
    const auto end = std::chrono::steady_clock::now();
    seconds[k] = std::chrono::duration<double>(end - begin).count();
    begin = end;
  }
}

std::vector<Tensor> CpuProgram::run_kernel(std::size_t k, std::span<const Tensor> values) const {
  const Group& group = plan_.kernels[k].group;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<const void*> in;
  std::vector<void*> out;
  const auto placement = [this](ValueId id) -> const Placement& {
    return plan_.placements[static_cast<std::size_t>(id)];
  };
  for (const ValueId id : group.inputs) {
    bytes.push_back(to_placed(values[static_cast<std::size_t>(id)], placement(id)));
    in.push_back(bytes.back().data());
  }
  for (const ValueId id : group.outputs) {
    bytes.emplace_back(static_cast<std::size_t>(placement(id).bytes));
    out.push_back(bytes.back().data());
  }
  const std::shared_ptr<std::byte> workspace = reserve(workspace_bytes_, "kernels' workspace");
  steps_[k].kernel->run(
      {.inputs = in, .outputs = out, .workspace = workspace.get(), .pool = pool_.get()});
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < group.outputs.size(); ++i) {
    const Value& value = plan_.graph.value(group.outputs[i]);
    results.push_back(from_placed(out[i], value.dtype, value.shape, placement(group.outputs[i])));
  }
  return results;
}

void CpuProgram::time(std::span<const void* const> inputs, std::span<void* const> outputs,
                      std::span<double> seconds, std::size_t runs) const {
  constexpr int kWarmUps = 10;
  for (int i = 0; i < kWarmUps; ++i) run(inputs, outputs);
  for (double& time : seconds) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < runs; ++i) run(inputs, outputs);
    time = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
           static_cast<double>(runs);
  }
}

}  // namespace braze
