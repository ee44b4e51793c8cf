// Times single kernels on the CPU.
#include <chrono>

#include "exec/cpu_program.hpp"
#include "exec/memory.hpp"
#include "exec/numbers.hpp"

namespace braze {

class CpuProgram::Timer final : public KernelTimer {
 public:
  Timer(const CpuProgram& program, std::size_t k) : program_(program) {
    const Step& step = program.steps_[k];
    const Group& group = program.plan_.kernels[k].group;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.constants[i] != nullptr) {
        inputs_.push_back(step.constants[i]);
        continue;
      }
      inputs_.push_back(filled(step.inputs[i], program.plan_.graph.value(group.inputs[i]).dtype));
    }
    for (std::size_t i = 0; i < step.outputs.size(); ++i)
      outputs_.push_back(
          filled(step.outputs[i], program.plan_.graph.value(group.outputs[i]).dtype));
    workspace_ = reserve(program.workspace_bytes_, "kernels' workspace");
  }

  void time(std::size_t k, std::span<double> seconds) override {
    for (double& time : seconds) {
      const auto begin = std::chrono::steady_clock::now();
      run(k);
      time = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
  }

 private:
  void run(std::size_t k) const {
    program_.steps_[k].kernel->run({.inputs = inputs_,
                                    .outputs = outputs_,
                                    .workspace = workspace_.get(),
                                    .pool = program_.pool_.get()});
  }

  std::byte* filled(const Placement& placement, DType dtype) {
    const auto bytes = static_cast<std::size_t>(placement.bytes);
    memory_.push_back(reserve(bytes, "a kernel's values"));
    fill_with_numbers({memory_.back().get(), bytes}, dtype);
    return memory_.back().get();
  }

  const CpuProgram& program_;
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::shared_ptr<std::byte> workspace_;
};

std::unique_ptr<KernelTimer> CpuProgram::timer(std::size_t k) const {
  return std::make_unique<Timer>(*this, k);
}

}  // namespace braze
