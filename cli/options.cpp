#include "cli/options.hpp"

#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "cli/failure.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace braze::cli {
namespace {

const std::map<std::string, Precision> kPrecisions = {{"fp32", Precision::kFp32},
                                                      {"tf32", Precision::kTf32},
                                                      {"fp16", Precision::kFp16},
                                                      {"bf16", Precision::kBf16}};
const std::map<std::string, Fusion> kFusions = {
    {"off", Fusion::kOff}, {"epilogue", Fusion::kEpilogue}, {"full", Fusion::kFull}};
const std::map<std::string, Backend> kBackends = {
    {"auto", Backend::kAuto}, {"braze", Backend::kBraze}, {"cudnn", Backend::kCudnn}};
const std::map<std::string, bool> kLayouts = {{"model", false}, {"nhwc", true}};
const std::map<std::string, bool> kDTypes = {{"model", false}, {"compute", true}};

bool all_digits(std::string_view text) {
  if (text.empty() || text.size() > 4) return false;
  for (const char c : text)
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return false;
  return true;
}

/// "" if `text` has the form of a device. Whether there is one is the library's to say.
std::string check_device(const std::string& text) {
  const std::string_view view = text;
  if (view == "cpu" || view == "cuda") return "";
  if (view.starts_with("cuda:sm_") && all_digits(view.substr(8))) return "";
  if (view.starts_with("cuda:") && all_digits(view.substr(5))) return "";
  return fmt::format("'{}' is none of cpu, cuda, cuda:N, cuda:sm_XX", text);
}

}  // namespace

Binding split_binding(const std::string& text, const char* option) {
  const std::size_t cut = text.rfind('=');
  if (cut == std::string::npos || cut == 0 || cut + 1 == text.size())
    fail(ErrorCode::kUsage, "{} takes NAME=VALUE, found '{}'", option, text);
  return {text.substr(0, cut), text.substr(cut + 1)};
}

CLI::Option* repeatable(CLI::Option* option) { return option->allow_extra_args(false); }

void ModelOptions::add_to(CLI::App& command) {
  command.add_option("MODEL", file, "ONNX model or engine file")->required();
  command.add_flag("--json", json, "Print JSON instead of text");
  command
      .add_option("--threads", options.threads, "Worker threads; 0: as many as the process may use")
      ->check(CLI::Range(0, 1024))
      ->type_name("N");
  command.add_option("--cache-dir", options.cache_dir, "Folder for compiled kernels and tuning")
      ->type_name("DIR");

  const auto fixed = [this](const CLI::Option* option) { compile_only.push_back(option); };
  fixed(command.add_option("--device", options.device, "Device to compile for; sm_XX needs none")
            ->check(check_device)
            ->type_name("cpu|cuda|cuda:N|cuda:sm_XX"));
  fixed(
      add_choice(command, "--precision", options.precision, kPrecisions, "Type of the arithmetic"));
  fixed(add_choice(command, "--fusion", options.fusion, kFusions, "How much to join"));
  fixed(add_choice(command, "--backend", options.backend, kBackends, "Whose kernels on a GPU"));
  fixed(command
            .add_option("--streams", options.streams,
                        "Most kernels at once on a GPU; 0: as many as pay, 1: one by one")
            ->check(CLI::Range(0, 16))
            ->type_name("N"));
  fixed(add_choice(command, "--io-layout", options.nhwc_io, kLayouts,
                   "Layout of inputs and outputs with rank 3 and up"));
  fixed(add_choice(command, "--io-dtype", options.compute_dtype_io, kDTypes,
                   "Element type of inputs and outputs"));
  fixed(repeatable(command.add_option("--dim", dims, "Bind a symbolic dimension (repeatable)"))
            ->type_name("NAME=VALUE"));
  fixed(command
            .add_option("--max-error", options.max_error,
                        "Largest error of an output, as a fraction of its range")
            ->type_name("X"));
  fixed(repeatable(command.add_option("--disable-pass", options.disabled_passes,
                                      "Skip a graph pass (repeatable)"))
            ->type_name("PASS"));
}

Options ModelOptions::parsed() const {
  Options result = options;
  for (const std::string& text : dims) {
    const Binding binding = split_binding(text, "--dim");
    std::int64_t value = 0;
    const char* end = binding.value.data() + binding.value.size();
    const auto [stop, error] = std::from_chars(binding.value.data(), end, value);
    if (error != std::errc() || stop != end || value < 1)
      fail(ErrorCode::kUsage, "--dim {}: the value must be a positive integer", text);
    if (!result.dims.emplace(binding.name, value).second)
      fail(ErrorCode::kUsage, "--dim binds '{}' twice", binding.name);
  }
  return result;
}

Result<Model> ModelOptions::try_open(const std::map<std::string, Tensor>& constants) const {
  if (!is_engine_file(file)) {
    Options with_constants = parsed();
    with_constants.constants = constants;
    std::optional<Progress> shown;  // from the first that there is to show
    with_constants.progress = [&shown](const std::string& text) {
      if (!shown) shown.emplace(text);
      shown->show(text);
    };
    Result<Model> model = compile(file, with_constants);
    shown.reset();
    if (model) {
      for (const std::string& warning : model->plan().warnings) print_note(warning);
    }
    return model;
  }
  for (const CLI::Option* option : compile_only) {
    if (option->count() > 0)
      fail(ErrorCode::kUsage, "{}: {} was fixed when this engine was compiled", file.string(),
           option->get_name());
  }
  return load(file, options);
}

Model ModelOptions::open() const { return unwrap(try_open({})); }

}  // namespace braze::cli
