// Engine files: a compiled model without its ONNX file.
#include <algorithm>

#include "braze/braze.hpp"
#include "exec/engine_file.hpp"
#include "machine.hpp"
#include "state.hpp"

namespace braze {

Status Model::save(const std::filesystem::path& file) const {
  return guarded([&] {
    write_engine(file, state_->program->plan());
    return Done{};
  });
}

Result<Model> load(const std::filesystem::path& file, const Options& options) {
  return guarded([&] {
    Plan plan = read_engine(file);
    Options mine = options;
    const bool cudnn = std::ranges::any_of(
        plan.kernels, [](const KernelPlan& kernel) { return kernel.backend == "cudnn"; });
    mine.backend = cudnn && !options.plan_only ? Backend::kCudnn : Backend::kBraze;
    const Machine machine = machine_of_engine(plan.device, mine);
    plan.device = machine.device;
    auto state = std::make_shared<Model::State>();
    state->max_error = options.max_error;
    state->program = make_program(std::move(plan), machine, options);
    describe(*state);
    return Model(std::move(state));
  });
}

bool is_engine_file(const std::filesystem::path& file) { return has_engine_magic(file); }

}  // namespace braze
