// Model's methods, and the small public functions.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

#include "base/error.hpp"
#include "base/file.hpp"
#include "braze/braze.hpp"
#include "exec/cuda/devices.hpp"
#include "exec/cuda/library.hpp"
#include "graph/elements.hpp"
#include "kernels/cpu/isa.hpp"
#include "model/read_onnx.hpp"
#include "model/read_tensor.hpp"
#include "state.hpp"

namespace braze {
namespace {

void check_tensors(std::span<const Tensor> tensors, const std::vector<TensorInfo>& expected,
                   const char* what) {
  if (tensors.size() != expected.size())
    fail(ErrorCode::kInput, "{} {}s were given; expected {}", tensors.size(), what,
         expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TensorInfo& info = expected[i];
    if (tensors[i].dtype() == info.dtype && tensors[i].shape() == info.shape &&
        (tensors[i].defined() || tensors[i].count() == 0))
      continue;
    fail(ErrorCode::kInput, "{} '{}' is {} {}; expected {} {}", what, info.name,
         to_string(tensors[i].dtype()), to_string(tensors[i].shape()), to_string(info.dtype),
         to_string(info.shape));
  }
}

void run_checked(const Model::State& state, std::span<const Tensor> inputs,
                 std::span<Tensor> outputs, std::span<double> seconds) {
  check_tensors(inputs, state.inputs, "input");
  check_tensors(outputs, state.outputs, "output");
  thread_local std::vector<const void*> in;  // kept, so that later runs allocate nothing
  thread_local std::vector<void*> out;
  in.clear();
  out.clear();
  for (const Tensor& tensor : inputs) in.push_back(tensor.data());
  for (Tensor& tensor : outputs) out.push_back(tensor.data());
  state.program->run(in, out, seconds);
}

std::vector<Tensor> make_outputs(const Model::State& state) {
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : state.outputs)
    outputs.push_back(Tensor::make(info.dtype, info.shape));
  return outputs;
}

}  // namespace

Model::Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const std::vector<TensorInfo>& Model::inputs() const { return state_->inputs; }
const std::vector<TensorInfo>& Model::outputs() const { return state_->outputs; }
const PlanSummary& Model::plan() const { return state_->summary; }

Result<std::vector<Tensor>> Model::run(std::span<const Tensor> inputs) const {
  return guarded([&] {
    std::vector<Tensor> outputs = make_outputs(*state_);
    run_checked(*state_, inputs, outputs, {});
    return outputs;
  });
}

Status Model::run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs) const {
  return guarded([&] {
    run_checked(*state_, inputs, outputs, {});
    return Done{};
  });
}

int Model::gpu() const { return state_->program->gpu(); }

Status Model::run_on_gpu(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                         void* stream) const {
  return guarded([&] {
    check_tensors(inputs, state_->inputs, "input");
    check_tensors(outputs, state_->outputs, "output");
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const Tensor& tensor : inputs) in.push_back(tensor.data());
    for (Tensor& tensor : outputs) out.push_back(tensor.data());
    state_->program->run_on_gpu(in, out, stream);
    return Done{};
  });
}

Status Model::copy_from_gpu(std::span<const Tensor> outputs, std::span<Tensor> host,
                            void* stream) const {
  return guarded([&] {
    check_tensors(outputs, state_->outputs, "output");
    check_tensors(host, state_->outputs, "output");
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const Tensor& tensor : outputs) from.push_back(tensor.data());
    for (Tensor& tensor : host) to.push_back(tensor.data());
    state_->program->copy_from_gpu(from, to, stream);
    return Done{};
  });
}

Status Model::order_after(void* stream) const {
  return guarded([&] {
    state_->program->order_after(stream);
    return Done{};
  });
}

Status Model::order_before(void* stream) const {
  return guarded([&] {
    state_->program->order_before(stream);
    return Done{};
  });
}

Status Model::synchronize() const {
  return guarded([&] {
    state_->program->synchronize();
    return Done{};
  });
}

Result<std::vector<Tensor>> Model::make_gpu_outputs() const {
  return guarded([&] {
    std::vector<Tensor> outputs;
    for (const TensorInfo& info : state_->outputs) {
      const auto bytes = static_cast<std::size_t>(element_count(info.shape)) * size_of(info.dtype);
      std::shared_ptr<std::byte> memory = state_->program->allocate_on_gpu(bytes);
      const std::byte* const data = memory.get();
      outputs.push_back(Tensor::share(info.dtype, info.shape, std::move(memory), data));
    }
    return outputs;
  });
}

Result<std::vector<double>> Model::profile(std::span<const Tensor> inputs) const {
  return guarded([&] {
    std::vector<double> seconds(state_->summary.kernels.size());
    std::vector<Tensor> outputs = make_outputs(*state_);
    run_checked(*state_, inputs, outputs, seconds);
    return seconds;
  });
}

Result<std::vector<double>> Model::time(std::span<const Tensor> inputs, int iterations,
                                        int runs) const {
  return guarded([&] {
    check_tensors(inputs, state_->inputs, "input");
    std::vector<Tensor> outputs = make_outputs(*state_);
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const Tensor& tensor : inputs) in.push_back(tensor.data());
    for (Tensor& tensor : outputs) out.push_back(tensor.data());
    std::vector<double> seconds(static_cast<std::size_t>(std::max(iterations, 0)));
    state_->program->time(in, out, seconds, static_cast<std::size_t>(std::max(runs, 1)));
    return seconds;
  });
}

std::string Model::source(std::size_t kernel) const { return state_->program->source(kernel); }

Result<VerifyReport> Model::verify(std::span<const Tensor> inputs, bool bisect,
                                   Reference reference) const {
  return guarded([&] {
    check_tensors(inputs, state_->inputs, "input");
    return verify_against_reference(*state_, inputs, bisect, reference);
  });
}

std::vector<Tensor> random_inputs(const Model& model, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<Tensor> tensors;
  for (const TensorInfo& info : model.inputs()) {
    Tensor values = Tensor::make(DType::kFloat32, info.shape);
    for (std::int64_t i = 0; i < values.count(); ++i) {
      const double x = uniform(generator);
      values.as<float>()[i] = static_cast<float>(
          is_float(info.dtype) ? x : std::floor((x + 1) * (info.dtype == DType::kBool ? 1 : 4)));
    }
    tensors.push_back(cast(values, info.dtype));
  }
  return tensors;
}

std::vector<DeviceReport> devices() {
  const Device cpu = cpu_device(0);
  std::vector<DeviceReport> reports = {
      {"cpu", true,
       fmt::format("{} threads, instruction set {}, {:.0f} GFLOP/s fp32 estimated", cpu.units,
                   cpu.isa, cpu.flops_fp32 / 1e9)}};
  std::ranges::move(cuda::report_devices(cuda::SearchPath::of_process()),
                    std::back_inserter(reports));
  return reports;
}

void add_package_folder(const std::filesystem::path& site_packages) {
  cuda::add_process_packages(site_packages);
}

Result<ModelInfo> inspect(std::span<const std::byte> bytes) {
  return guarded([&] { return read_model_info(bytes); });
}

Result<ModelInfo> inspect(const std::filesystem::path& file) {
  return guarded([&] {
    const auto mapped = MappedFile::open(file, ErrorCode::kModelInvalid);
    try {
      return read_model_info(mapped->bytes());
    } catch (const Exception& exception) {
      fail(exception.error().code, "'{}': {}", file.string(), exception.error().message);
    }
  });
}

Result<Tensor> read_tensor(const std::filesystem::path& file) {
  return guarded([&] { return read_tensor_file(file); });
}

Status write_tensor(const std::filesystem::path& file, const Tensor& tensor) {
  return guarded([&] {
    write_tensor_file(file, tensor);
    return Done{};
  });
}

const char* version() { return BRAZE_VERSION; }

}  // namespace braze
