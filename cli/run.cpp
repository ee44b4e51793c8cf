// braze run: inputs from files, outputs into a folder.
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <set>

#include "cli/commands.hpp"
#include "cli/failure.hpp"
#include "cli/inputs.hpp"
#include "cli/text.hpp"

namespace braze::cli {
namespace {

constexpr std::size_t kLongestName = 200;  // file systems take 255 bytes

/// A file name for an output: letters, digits, '.', '_' and '-' stay, all else becomes '_';
/// distinct from those in `taken`.
std::string file_name(const std::string& output, const std::string& extension,
                      std::set<std::string>& taken) {
  std::string stem;
  for (const char c : output.substr(0, kLongestName)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    stem += plain ? c : '_';
  }
  if (stem.empty() || stem.front() == '.') stem.insert(0, "_");
  std::string name = stem + extension;
  for (int i = 2; !taken.insert(name).second; ++i)
    name = fmt::format("{}_{}{}", stem, i, extension);
  return name;
}

/// Writes under another name first, so that a reader sees the old file or the whole new one.
void write_text(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path part =
      file.parent_path() / fmt::format(".{}.{}.tmp", file.filename().string(), getpid());
  std::ofstream stream(part, std::ios::binary);
  stream << text;
  stream.close();
  std::error_code error(stream ? 0 : errno, std::generic_category());
  if (!error) std::filesystem::rename(part, file, error);
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  fail(ErrorCode::kIo, "cannot write '{}': {}", file.string(), error.message());
}

struct RunCommand {
  ModelOptions model;
  InputOptions inputs;
  std::filesystem::path folder;

  void run() const {
    const OpenedModel opened = open_with_inputs(model, inputs, Missing::kError);
    const std::vector<Tensor> outputs = unwrap(opened.model.run(opened.inputs));
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
      fail(ErrorCode::kIo, "cannot create folder '{}': {}", folder.string(), error.message());
    write(opened.model.outputs(), outputs);
  }

 private:
  void write(const std::vector<TensorInfo>& infos, const std::vector<Tensor>& outputs) const {
    std::set<std::string> taken;
    auto list = nlohmann::ordered_json::array();
    std::string text;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& tensor = outputs[i];
      const char* extension = tensor.dtype() == DType::kBFloat16 ? ".pb" : ".npy";
      const std::string name = file_name(infos[i].name, extension, taken);
      unwrap(write_tensor(folder / name, tensor));
      list.push_back({{"name", infos[i].name},
                      {"file", name},
                      {"dtype", to_string(tensor.dtype())},
                      {"shape", tensor.shape()}});
      text += fmt::format("{}  {}  {}\n", printable((folder / name).string()),
                          printable(infos[i].name), type_text(tensor.dtype(), tensor.shape()));
    }
    write_text(folder / "outputs.json", json_text(list));
    print_out(model.json ? json_text(list) : text);
  }
};

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto self = std::make_shared<RunCommand>();
  CLI::App* command = app.add_subcommand("run", "Run the network once on given inputs");
  self->model.add_to(*command);
  self->inputs.add_to(*command);
  command->add_option("--output-dir", self->folder, "Folder for the outputs and outputs.json")
      ->required()
      ->type_name("DIR");
  command->callback([self, &action] { action = [self] { self->run(); }; });
}

}  // namespace braze::cli
