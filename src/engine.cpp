// Engine files: a compiled model without its ONNX file.
#include "braze/braze.hpp"
#include "exec/engine_file.hpp"
#include "state.hpp"
#include "target/device.hpp"

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
    plan.device = cpu_device(options.threads);
    auto state = std::make_shared<Model::State>();
    state->max_error = options.max_error;
    state->program = std::make_unique<CpuProgram>(std::move(plan));
    describe(*state);
    return Model(std::move(state));
  });
}

bool is_engine_file(const std::filesystem::path& file) { return has_engine_magic(file); }

}  // namespace braze
