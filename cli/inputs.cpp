#include "cli/inputs.hpp"

#include <algorithm>
#include <map>

#include "cli/failure.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace braze::cli {
namespace {

using Tensors = std::map<std::string, Tensor>;

/// NAME=FILE. Either side may hold a '=' of its own: the first cut whose right side is there wins,
/// else the first cut.
Binding split_file(const std::string& text, const char* option) {
  std::size_t first = std::string::npos;
  for (std::size_t cut = text.find('='); cut != std::string::npos; cut = text.find('=', cut + 1)) {
    if (cut == 0 || cut + 1 == text.size()) continue;
    if (first == std::string::npos) first = cut;
    std::error_code ignored;
    if (std::filesystem::exists(text.substr(cut + 1), ignored))
      return {text.substr(0, cut), text.substr(cut + 1)};
  }
  if (first == std::string::npos)
    fail(ErrorCode::kUsage, "{} takes NAME=FILE, found '{}'", option, text);
  return {text.substr(0, first), text.substr(first + 1)};
}

Tensors read_files(const InputOptions& options) {
  Tensors given;
  for (const std::string& text : options.files) {
    const Binding binding = split_file(text, "--input");
    if (!given.emplace(binding.name, unwrap(read_tensor(binding.value))).second)
      fail(ErrorCode::kUsage, "--input gives '{}' twice", binding.name);
  }
  return given;
}

bool is_index(const Tensor& tensor) {
  return tensor.dtype() == DType::kInt64 || tensor.dtype() == DType::kInt32;
}

/// Names of the given inputs to bind after `error`: the one that it says a shape depends on, else
/// all of the integer ones (the shape depends on a value computed from them). Empty if binding
/// cannot help.
std::vector<std::string> to_bind(const Error& error, const Tensors& given, const Tensors& bound) {
  constexpr std::string_view kMark = "depends on the values of input '";
  const std::size_t mark = error.message.find(kMark);
  if (error.code != ErrorCode::kUnsupported || mark == std::string::npos) return {};
  const std::string_view rest = std::string_view(error.message).substr(mark + kMark.size());
  std::vector<std::string> integers;
  for (const auto& [name, tensor] : given) {
    if (bound.contains(name)) continue;
    if (rest.starts_with(name + "'")) return {name};
    if (is_index(tensor)) integers.push_back(name);
  }
  return integers;
}

Model open_binding(const ModelOptions& options, const Tensors& given, Tensors& bound) {
  for (;;) {
    Result<Model> model = options.try_open(bound);
    if (model.ok()) return std::move(model).value();
    const std::vector<std::string> names = to_bind(model.error(), given, bound);
    if (names.empty()) throw Failure(model.error());
    for (const std::string& name : names) {
      print_note(fmt::format("note: input '{}' decides a shape; its value is compiled in", name));
      bound.emplace(name, given.at(name));
    }
  }
}

std::string list_of(const std::vector<TensorInfo>& inputs) {
  std::string text;
  for (const TensorInfo& input : inputs) {
    text += fmt::format("{}'{}' {}", text.empty() ? "" : ", ", input.name,
                        type_text(input.dtype, input.shape));
  }
  return text.empty() ? "none" : text;
}

const TensorInfo& find_input(const Model& model, const std::string& name) {
  const std::vector<TensorInfo>& inputs = model.inputs();
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const TensorInfo& input) { return input.name == name; });
  if (found == inputs.end())
    fail(ErrorCode::kInput, "there is no input '{}'; the inputs are {}", name, list_of(inputs));
  return *found;
}

void add_images(const Model& model, const InputOptions& inputs, Tensors& given) {
  for (const std::string& text : inputs.images) {
    const Binding binding = split_file(text, "--image");
    const TensorInfo& info = find_input(model, binding.name);
    Tensor tensor = load_image(binding.value, info, model.plan().nhwc_io, inputs.image);
    if (!given.emplace(binding.name, std::move(tensor)).second)
      fail(ErrorCode::kUsage, "input '{}' is given twice", binding.name);
  }
}

}  // namespace

void InputOptions::add_to(CLI::App& command) {
  repeatable(command.add_option("--input", files, "An input, .npy or .pb (repeatable)"))
      ->type_name("NAME=FILE");
  repeatable(command.add_option("--image", images, "An input, PNG or JPEG (repeatable)"))
      ->type_name("NAME=FILE");
  const auto list = [&command](const char* name, std::vector<double>& values, const char* help) {
    command.add_option(name, values, help)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("X,..");
  };
  list("--mean", image.mean, "Of --image: (pixel * scale - mean) / std; default 0");
  list("--std", image.std, "Of --image; default 1");
  command.add_option("--scale", image.scale, "Of --image; default 1/255")->type_name("X");
  command.add_flag("--resize", image.resize, "Scale pictures to the input's height and width");
  command.add_flag("--bgr", image.bgr, "Channels of pictures in the order blue, green, red");
}

OpenedModel open_with_inputs(const ModelOptions& options, const InputOptions& inputs,
                             Missing missing) {
  if (!is_engine_file(options.file) && options.options.device.starts_with("cuda:sm_"))
    fail(ErrorCode::kUsage, "device '{}' names an architecture, not a GPU: nothing can run on it",
         options.options.device);
  Tensors given = read_files(inputs);
  Tensors bound;
  Model model = [&] {
    const Progress progress("compiling " + options.file.string());
    return open_binding(options, given, bound);
  }();
  add_images(model, inputs, given);
  for (const auto& [name, tensor] : given)
    if (!bound.contains(name)) find_input(model, name);

  std::vector<Tensor> values;
  if (missing == Missing::kRandom) values = random_inputs(model);
  std::vector<TensorInfo> absent;
  for (std::size_t i = 0; i < model.inputs().size(); ++i) {
    const TensorInfo& input = model.inputs()[i];
    const auto found = given.find(input.name);
    if (found != given.end()) {
      missing == Missing::kRandom ? void(values[i] = found->second)
                                  : values.push_back(found->second);
    } else if (missing == Missing::kError) {
      absent.push_back(input);
    }
  }
  if (!absent.empty())
    fail(ErrorCode::kInput, "inputs not given (--input NAME=FILE): {}", list_of(absent));
  return {std::move(model), std::move(values)};
}

}  // namespace braze::cli
