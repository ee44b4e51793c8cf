#include "support/onnx_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "graph/elements.hpp"
#include "onnx/onnx.pb.h"

namespace braze::test {
namespace {

/// The same bytes under another dtype of the same size: test data stores bfloat16 as uint16.
Tensor reinterpreted(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() != DType::kUInt16 || dtype != DType::kBFloat16) return tensor;
  return Tensor::share(dtype, tensor.shape(), std::make_shared<Tensor>(tensor), tensor.data());
}

/// The name in "... depends on the values of input 'NAME'", or "".
std::string deciding_input(const Error& error) {
  constexpr std::string_view kPhrase = "values of input '";
  const std::size_t at = error.message.find(kPhrase);
  if (error.code != ErrorCode::kUnsupported || at == std::string::npos) return "";
  const std::size_t begin = at + kPhrase.size();
  return error.message.substr(begin, error.message.find('\'', begin) - begin);
}

onnx::ModelProto parse(const std::filesystem::path& file) {
  onnx::ModelProto model;
  std::ifstream stream(file, std::ios::binary);
  if (!model.ParseFromIstream(&stream)) model.Clear();
  return model;
}

/// The model's inputs that are no initializers, in order.
std::vector<std::string> input_names(const onnx::ModelProto& model) {
  std::set<std::string> initializers;
  for (const auto& initializer : model.graph().initializer())
    initializers.insert(initializer.name());
  std::vector<std::string> names;
  for (const auto& input : model.graph().input()) {
    if (!initializers.contains(input.name())) names.push_back(input.name());
  }
  return names;
}

/// Compiles with `data` in hand: binds what the error says decides a shape, and what is known of
/// symbolic dimensions, until it works.
Result<Model> compile_for(const std::filesystem::path& file, Options options,
                          const std::vector<std::string>& names, const DataSet& data) {
  const onnx::ModelProto proto = parse(file);
  for (const auto& input : proto.graph().input()) {
    const auto at = std::find(names.begin(), names.end(), input.name());
    const auto index = static_cast<std::size_t>(at - names.begin());
    if (at == names.end() || index >= data.inputs.size()) continue;
    const auto& dims = input.type().tensor_type().shape().dim();
    for (int axis = 0; axis < dims.size(); ++axis) {
      const Shape& shape = data.inputs[index].shape();
      if (!dims[axis].dim_param().empty() && static_cast<std::size_t>(axis) < shape.size())
        options.dims[dims[axis].dim_param()] = shape[static_cast<std::size_t>(axis)];
    }
  }
  for (std::size_t tries = 0; tries <= names.size(); ++tries) {
    Result<Model> model = compile(file, options);
    if (model) return model;
    const std::string decides = deciding_input(model.error());
    if (decides.empty()) return model;
    std::size_t bound = 0;
    for (std::size_t i = 0; i < std::min(names.size(), data.inputs.size()); ++i) {
      const bool named = std::find(names.begin(), names.end(), decides) != names.end();
      if (named ? names[i] != decides : !is_integer(data.inputs[i].dtype())) continue;
      bound += options.constants.emplace(names[i], data.inputs[i]).second ? 1 : 0;
    }
    if (bound == 0) return model;
  }
  return compile(file, options);
}

Outcome run_data_set(const std::filesystem::path& file, const Options& options, const DataSet& data,
                     const Tolerance& tolerance) {
  const std::vector<std::string> names = input_names(parse(file));
  const Result<Model> model = compile_for(file, options, names, data);
  if (!model) {
    const bool refused = model.error().code == ErrorCode::kUnsupported;
    return {refused ? Verdict::kRefused : Verdict::kWrong, model.error().message};
  }
  std::vector<Tensor> inputs;
  for (const TensorInfo& info : model->inputs()) {
    const auto at = std::find(names.begin(), names.end(), info.name);
    const auto index = static_cast<std::size_t>(at - names.begin());
    if (index >= data.inputs.size())
      return {Verdict::kRefused, "the test data has no input '" + info.name + "'"};
    inputs.push_back(reinterpreted(data.inputs[index], info.dtype));
    if (inputs.back().shape() != info.shape) {
      return {Verdict::kRefused,
              fmt::format("the test data of input '{}' has shape {}, the model says {}", info.name,
                          to_string(inputs.back().shape()), to_string(info.shape))};
    }
  }
  const Result<std::vector<Tensor>> outputs = model->run(inputs);
  if (!outputs) return {Verdict::kWrong, outputs.error().message};
  for (std::size_t i = 0; i < std::min(outputs->size(), data.outputs.size()); ++i) {
    const Tensor& got = outputs.value()[i];
    // ONNX 1.12's data cuts floats to bfloat16 where ONNX rounds to nearest: up to one unit in the
    // last place apart.
    const Tolerance allowed = got.dtype() == DType::kBFloat16 ? Tolerance{0x1p-7, 0} : tolerance;
    const std::string what = difference(got, reinterpreted(data.outputs[i], got.dtype()), allowed);
    if (!what.empty())
      return {Verdict::kWrong, fmt::format("output '{}': {}", model->outputs()[i].name, what)};
  }
  return {};
}

}  // namespace

std::vector<DataSet> read_data_sets(const std::filesystem::path& folder) {
  std::vector<DataSet> sets;
  for (int number = 0;
       std::filesystem::is_directory(folder / fmt::format("test_data_set_{}", number)); ++number) {
    const std::filesystem::path data = folder / fmt::format("test_data_set_{}", number);
    const auto read_all = [&data](const char* kind) {
      std::vector<Tensor> tensors;
      for (int i = 0; std::filesystem::exists(data / fmt::format("{}_{}.pb", kind, i)); ++i) {
        Result<Tensor> tensor = read_tensor(data / fmt::format("{}_{}.pb", kind, i));
        if (!tensor) throw Exception(tensor.error());
        tensors.push_back(*tensor);
      }
      return tensors;
    };
    sets.push_back({read_all("input"), read_all("output")});
  }
  return sets;
}

std::string difference(const Tensor& got, const Tensor& want, const Tolerance& tolerance) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    return fmt::format("is {} {}, expected {} {}", to_string(got.dtype()), to_string(got.shape()),
                       to_string(want.dtype()), to_string(want.shape()));
  }
  if (!is_float(got.dtype())) {
    const auto a = load<std::int64_t>(got);
    const auto b = load<std::int64_t>(want);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) return fmt::format("element {} is {}, expected {}", i, a[i], b[i]);
    }
    return "";
  }
  const auto a = load<double>(got);
  const auto b = load<double>(want);
  double range = 0;
  for (const double value : b)
    range = std::isfinite(value) ? std::max(range, std::fabs(value)) : range;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double scale = tolerance.of_range ? range : std::fabs(b[i]);
    const bool close = std::isfinite(a[i]) && std::isfinite(b[i]) &&
                       std::fabs(a[i] - b[i]) <= tolerance.absolute + tolerance.relative * scale;
    if (!close) return fmt::format("element {} is {}, expected {}", i, a[i], b[i]);
  }
  return "";
}

Outcome run_case(const std::filesystem::path& folder, const Options& options,
                 const Tolerance& tolerance) {
  std::vector<DataSet> sets;
  try {
    sets = read_data_sets(folder);
  } catch (const Exception& error) {  // a dtype that Braze does not have, such as strings; or a
                                      // sequence instead of a tensor
    return {Verdict::kRefused, error.error().message};
  }
  for (const DataSet& data : sets) {
    Outcome outcome = run_data_set(folder / "model.onnx", options, data, tolerance);
    if (outcome.verdict != Verdict::kPassed) return outcome;
  }
  return {};
}

std::vector<std::string> operators_of(const std::filesystem::path& model) {
  std::set<std::string> types;
  const onnx::ModelProto proto = parse(model);
  for (const auto& node : proto.graph().node()) types.insert(node.op_type());
  return {types.begin(), types.end()};
}

std::size_t node_count_of(const std::filesystem::path& model) {
  return static_cast<std::size_t>(parse(model).graph().node_size());
}

std::vector<std::filesystem::path> find_cases(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> folders;
  if (!std::filesystem::is_directory(root)) return folders;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (std::filesystem::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace braze::test
