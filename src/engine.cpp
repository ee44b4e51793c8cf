// Engine files: a compiled model without its ONNX file.
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
    mine.device = device_option(plan.device, options);
    const Machine machine = select_machine(mine);
    plan.device = machine.device;
    auto state = std::make_shared<Model::State>();
    state->max_error = options.max_error;
    state->program = make_program(std::move(plan), machine, mine);
    describe(*state);
    return Model(std::move(state));
  });
}

bool is_engine_file(const std::filesystem::path& file) { return has_engine_magic(file); }

}  // namespace braze
