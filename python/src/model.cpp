// Model and what makes one.
#include "python/src/model.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <exception>
#include <utility>

#include "braze/braze.hpp"
#include "python/src/borrow.hpp"
#include "python/src/error.hpp"

namespace nb = nanobind;

namespace braze::python {
namespace {

using namespace nb::literals;  // NOLINT(google-build-using-namespace)

/// Does long work without the GIL; `work` gets the options, with a progress that may call Python.
/// What the callback throws (Ctrl-C too) ends the work.
template <class Work>
auto without_gil(const Options& options, nb::object progress, const Work& work) {
  Options mine = options;
  std::exception_ptr thrown;
  mine.progress = [&](const std::string& what) {
    const nb::gil_scoped_acquire gil;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!progress.is_none()) progress(what);
    } catch (...) {
      thrown = std::current_exception();
      throw;
    }
  };
  auto result = [&] {
    const nb::gil_scoped_release released;
    return work(std::as_const(mine));
  }();
  if (thrown) std::rethrow_exception(thrown);
  return unwrap(std::move(result));
}

Model compile_file(const std::filesystem::path& file, const Options& options, nb::object progress) {
  return without_gil(options, std::move(progress),
                     [&](const Options& mine) { return compile(file, mine); });
}

std::span<const std::byte> bytes_of(const nb::bytes& data) {
  return {static_cast<const std::byte*>(data.data()), data.size()};
}

Model compile_bytes(const nb::bytes& data, const std::filesystem::path& folder,
                    const Options& options, nb::object progress) {
  return without_gil(options, std::move(progress),
                     [&](const Options& mine) { return compile(bytes_of(data), folder, mine); });
}

Model load_file(const std::filesystem::path& file, const Options& options, nb::object progress) {
  return without_gil(options, std::move(progress),
                     [&](const Options& mine) { return load(file, mine); });
}

/// Arrays of Python as the model's inputs or outputs.
class Arguments {
 public:
  Arguments(const nb::sequence& arrays, const std::vector<TensorInfo>& infos, const char* what,
            Borrowed::Access access, const Place& place) {
    const std::size_t count = nb::len(arrays);
    if (count != infos.size()) {
      raise({ErrorCode::kInput, std::to_string(count) + " " + what + "s were given; expected " +
                                    std::to_string(infos.size())});
    }
    borrowed_.reserve(count);
    tensors_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      borrowed_.emplace_back(arrays[i], access, place, Where{what, infos[i].name});
      tensors_.push_back(borrowed_.back().tensor());
    }
  }
  [[nodiscard]] std::span<Tensor> tensors() { return tensors_; }
  /// True if there are some and all are on GPU `gpu`, false if all are in host memory.
  [[nodiscard]] bool on_gpu(int gpu, const std::vector<TensorInfo>& infos, const char* what) const {
    for (std::size_t i = 0; i < borrowed_.size(); ++i) {
      if (borrowed_[i].gpu() == borrowed_[0].gpu() && (!borrowed_[i].on_gpu() || gpu >= 0) &&
          (!borrowed_[i].on_gpu() || borrowed_[i].gpu() == gpu))
        continue;
      const auto place = [](int number) {
        return number < 0 ? std::string("in host memory") : "on cuda:" + std::to_string(number);
      };
      raise({ErrorCode::kInput,
             std::string(what) + " '" + infos[i].name + "' is " + place(borrowed_[i].gpu()) +
                 "; expected all " + what + "s " +
                 (gpu < 0 ? "in host memory: the model runs on the CPU"
                          : "on cuda:" + std::to_string(gpu) + ", or all in host memory")});
    }
    return !borrowed_.empty() && borrowed_[0].on_gpu();
  }

 private:
  std::vector<Borrowed> borrowed_;
  std::vector<Tensor> tensors_;
};

void run(const Model& model, const nb::sequence& inputs, const nb::sequence& outputs,
         std::intptr_t stream) {
  const Place place{&model, stream};
  Arguments in(inputs, model.inputs(), "input", Borrowed::Access::kRead, place);
  Arguments out(outputs, model.outputs(), "output", Borrowed::Access::kWrite, place);
  const int gpu = model.gpu();
  const bool in_on_gpu = in.on_gpu(gpu, model.inputs(), "input");
  const bool out_on_gpu = out.on_gpu(gpu, model.outputs(), "output");
  if (in_on_gpu != out_on_gpu && !model.inputs().empty()) {
    const std::string there = "on cuda:" + std::to_string(gpu);
    raise({ErrorCode::kInput, "the inputs are " + (in_on_gpu ? there : "in host memory") +
                                  " and the outputs " + (in_on_gpu ? "in host memory" : there) +
                                  "; expected all " + there + ", or all in host memory"});
  }
  Status status = Done{};
  {
    const nb::gil_scoped_release released;
    status = out_on_gpu
                 ? model.run_on_gpu(in.tensors(), out.tensors(), reinterpret_cast<void*>(stream))
                 : model.run_into(in.tensors(), out.tensors());
  }
  unwrap(std::move(status));
}

/// For what looks at host memory only.
Arguments host_inputs(const Model& model, const nb::sequence& inputs) {
  Arguments in(inputs, model.inputs(), "input", Borrowed::Access::kRead, {&model});
  if (in.on_gpu(model.gpu(), model.inputs(), "input"))
    raise({ErrorCode::kInput, "the inputs are on a GPU; expected arrays in host memory here"});
  return in;
}

template <class Work>
auto released(const Work& work) {
  auto result = [&] {
    const nb::gil_scoped_release gil;
    return work();
  }();
  return unwrap(std::move(result));
}

void fill_random(const Model& model, const nb::sequence& arrays, std::uint64_t seed) {
  Arguments out(arrays, model.inputs(), "input", Borrowed::Access::kWrite, {&model});
  if (out.on_gpu(model.gpu(), model.inputs(), "input"))
    raise({ErrorCode::kInput, "the arrays are on a GPU; expected arrays in host memory here"});
  const std::vector<Tensor> values = random_inputs(model, seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Tensor& to = out.tensors()[i];
    if (to.dtype() != values[i].dtype() || to.shape() != values[i].shape())
      raise({ErrorCode::kInput, "an array is not of its input's type"});
    if (to.bytes() != 0) std::memcpy(to.data(), values[i].data(), to.bytes());
  }
}

/// `address` stays the caller's, who keeps it valid.
Array view_memory(std::uintptr_t address, const std::string& dtype, const Shape& shape, int gpu) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto type = static_cast<DType>(i);
    if (dtype == to_string(type))
      return {Tensor::view(type, shape, reinterpret_cast<void*>(address)), gpu, {}};
  }
  raise({ErrorCode::kUsage, "'" + dtype + "' is no element type"});
}

void copy_from_gpu(const Model& model, const nb::sequence& outputs, const nb::sequence& host,
                   std::intptr_t stream) {
  Arguments from(outputs, model.outputs(), "output", Borrowed::Access::kRead, {&model, stream});
  Arguments to(host, model.outputs(), "output", Borrowed::Access::kWrite, {&model});
  if (!from.on_gpu(model.gpu(), model.outputs(), "output") ||
      to.on_gpu(model.gpu(), model.outputs(), "output"))
    raise({ErrorCode::kInput, "copies go from arrays on the model's GPU to arrays of the host"});
  released([&] {
    return model.copy_from_gpu(from.tensors(), to.tensors(), reinterpret_cast<void*>(stream));
  });
}

std::vector<Array> make_gpu_outputs(const Model& model) {
  std::vector<Array> arrays;
  for (Tensor& tensor : unwrap(model.make_gpu_outputs()))
    arrays.push_back({std::move(tensor), model.gpu(), model});
  return arrays;
}

void bind_options(nb::module_& m) {
  nb::enum_<Precision>(m, "Precision")
      .value("fp32", Precision::kFp32)
      .value("tf32", Precision::kTf32)
      .value("fp16", Precision::kFp16)
      .value("bf16", Precision::kBf16);
  nb::enum_<Fusion>(m, "Fusion")
      .value("off", Fusion::kOff)
      .value("epilogue", Fusion::kEpilogue)
      .value("full", Fusion::kFull);
  nb::enum_<Backend>(m, "Backend")
      .value("auto", Backend::kAuto)
      .value("braze", Backend::kBraze)
      .value("cudnn", Backend::kCudnn);
  nb::enum_<Reference>(m, "Reference")
      .value("auto", Reference::kAuto)
      .value("interpreter", Reference::kInterpreter)
      .value("cpu", Reference::kCpu);
  nb::class_<Options>(m, "Options")
      .def(nb::init<>())
      .def_rw("device", &Options::device)
      .def_rw("precision", &Options::precision)
      .def_rw("fusion", &Options::fusion)
      .def_rw("backend", &Options::backend)
      .def_rw("nhwc_io", &Options::nhwc_io)
      .def_rw("compute_dtype_io", &Options::compute_dtype_io)
      .def_rw("dims", &Options::dims)
      .def_rw("max_error", &Options::max_error)
      .def_rw("threads", &Options::threads)
      .def_rw("streams", &Options::streams)
      .def_rw("cache_dir", &Options::cache_dir)
      .def_rw("disabled_passes", &Options::disabled_passes)
      .def_rw("plan_only", &Options::plan_only)
      .def(
          "bind_constant",
          [](Options& options, const std::string& name, nb::handle array) {
            const Borrowed value(array, Borrowed::Access::kRead, {}, Where{"constant", name});
            options.constants[name] = value.tensor().clone();
          },
          "name"_a, "array"_a);
}

}  // namespace

void bind_model(nb::module_& m) {
  bind_options(m);
  nb::class_<Array>(m, "Array")
      .def("__dlpack__",
           [](const Array& array, const nb::kwargs& wanted /*stream, versions*/) {
             std::optional<std::intptr_t> stream;
             if (wanted.contains("stream"))
               stream = nb::cast<std::optional<std::intptr_t>>(wanted["stream"]);
             return array.to_dlpack(stream);
           })
      .def("__dlpack_device__",
           [](const Array& array) {
             return array.gpu < 0 ? std::pair(static_cast<int>(Memory::kCpu), 0)
                                  : std::pair(static_cast<int>(Memory::kCuda), array.gpu);
           })
      .def_prop_ro("dtype", [](const Array& array) { return to_string(array.tensor.dtype()); })
      .def_prop_ro("shape", [](const Array& array) { return array.tensor.shape(); })
      .def_prop_ro("address", [](const Array& array) {
        return reinterpret_cast<std::uintptr_t>(array.tensor.data());
      });
  m.def("view_memory", &view_memory, "address"_a, "dtype"_a, "shape"_a, "gpu"_a);
  nb::class_<Model>(m, "Model")
      .def_prop_ro("inputs", &Model::inputs, nb::rv_policy::copy)
      .def_prop_ro("outputs", &Model::outputs, nb::rv_policy::copy)
      .def_prop_ro("plan", &Model::plan, nb::rv_policy::copy)
      .def_prop_ro("gpu", &Model::gpu)
      .def("run", &run, "inputs"_a, "outputs"_a, "stream"_a = 0)
      .def("make_gpu_outputs", &make_gpu_outputs)
      .def("synchronize", [](const Model& model) { released([&] { return model.synchronize(); }); })
      .def("copy_from_gpu", &copy_from_gpu, "outputs"_a, "host"_a, "stream"_a = 0)
      .def("fill_random", &fill_random, "arrays"_a, "seed"_a = 0)
      .def(
          "profile",
          [](const Model& model, const nb::sequence& inputs) {
            Arguments in = host_inputs(model, inputs);
            return released([&] { return model.profile(in.tensors()); });
          },
          "inputs"_a)
      .def(
          "time",
          [](const Model& model, const nb::sequence& inputs, int iterations) {
            Arguments in = host_inputs(model, inputs);
            return released([&] { return model.time(in.tensors(), iterations); });
          },
          "inputs"_a, "iterations"_a)
      .def(
          "verify",
          [](const Model& model, const nb::sequence& inputs, bool bisect, Reference reference) {
            Arguments in = host_inputs(model, inputs);
            return released([&] { return model.verify(in.tensors(), bisect, reference); });
          },
          "inputs"_a, "bisect"_a, "reference"_a)
      .def("source", &Model::source, "kernel"_a)
      .def(
          "save",
          [](const Model& model, const std::filesystem::path& file) {
            released([&] { return model.save(file); });
          },
          "file"_a);
  m.def("compile_file", &compile_file, "file"_a, "options"_a, "progress"_a.none());
  m.def("compile_bytes", &compile_bytes, "data"_a, "folder"_a, "options"_a, "progress"_a.none());
  m.def("load_file", &load_file, "file"_a, "options"_a, "progress"_a.none());
  m.def("is_engine_file", &is_engine_file, "file"_a);
}

}  // namespace braze::python
