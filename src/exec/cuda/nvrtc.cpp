#include "exec/cuda/nvrtc.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "exec/cuda/parallel.hpp"
#include "target/device.hpp"

namespace braze::cuda {
namespace {

constexpr const char* kLanguage = "-std=c++17";
/// Longest part of a log that an error shows.
constexpr std::size_t kLogBytes = 4000;

/// First and last NVRTC for an sm, as far as that is known: what to tell those who have another.
struct Need {
  int sm;
  Version first;
  int last_major;  // 0: none yet
};
constexpr std::array kNeeds = {Need{70, {11, 0}, 12}, Need{72, {11, 0}, 12}, Need{75, {11, 0}, 0},
                               Need{80, {11, 0}, 0},  Need{86, {11, 1}, 0},  Need{87, {11, 4}, 0},
                               Need{89, {11, 8}, 0},  Need{90, {12, 0}, 0}};  // sm_90a: 12.0

const Need* find_need(int sm) {
  const auto* const found = std::ranges::find(kNeeds, sm, &Need::sm);
  return found != kNeeds.end() ? found : nullptr;
}

std::string needed(int sm) {
  const Need* need = find_need(sm);
  if (need == nullptr) return fmt::format("a newer NVRTC");
  if (need->last_major != 0)
    return fmt::format("NVRTC {} to {}", need->first.major, need->last_major);
  return fmt::format("NVRTC {} or newer", to_string(need->first));
}

/// False if a symbol is missing.
bool load(Nvrtc& nvrtc) {
  bool whole = true;
#define BRAZE_LOAD(member, name, parameters)                                             \
  nvrtc.member = reinterpret_cast<decltype(nvrtc.member)>(nvrtc.library->symbol(#name)); \
  whole = whole && nvrtc.member != nullptr;
  BRAZE_NVRTC_FUNCTIONS(BRAZE_LOAD)
#undef BRAZE_LOAD
  if (!whole) return false;
  int count = 0;
  if (nvrtc.get_num_supported_archs(&count) != api::kNvrtcSuccess || count <= 0) return false;
  nvrtc.archs.resize(static_cast<std::size_t>(count));
  if (nvrtc.get_supported_archs(nvrtc.archs.data()) != api::kNvrtcSuccess) return false;
  std::ranges::sort(nvrtc.archs);
  return true;
}

/// Newer than the NVRTC, but PTX will do: its kernels are those of sm_80.
bool as_ptx(const Nvrtc& nvrtc, int sm) { return sm > 90 && sm > nvrtc.archs.back(); }

/// Why an NVRTC is not the one wanted; "" if it is.
std::string refusal(const Nvrtc& nvrtc, int sm, const Version& driver) {
  const Version& version = nvrtc.library->version();
  if (driver.major != 0 && version.major > driver.major)
    return fmt::format("it is NVRTC {}, whose output the driver for CUDA {} does not load",
                       to_string(version), to_string(driver));
  if (sm == 0 || as_ptx(nvrtc, sm)) return "";
  const Need* need = find_need(sm);
  if (std::ranges::binary_search(nvrtc.archs, sm) && (need == nullptr || version >= need->first))
    return "";
  return fmt::format("it is NVRTC {}, which compiles for sm_{} to sm_{}", to_string(version),
                     nvrtc.archs.front(), nvrtc.archs.back());
}

/// A program of NVRTC's, destroyed on the way out.
class Program {
 public:
  explicit Program(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_ != nullptr) nvrtc_.destroy_program(&program_);
  }
  api::NvrtcProgram* out() { return &program_; }
  [[nodiscard]] api::NvrtcProgram get() const { return program_; }

  [[nodiscard]] std::string log() const {
    std::size_t bytes = 0;
    if (nvrtc_.get_program_log_size(program_, &bytes) != api::kNvrtcSuccess) return "";
    std::string text(bytes, '\0');
    if (nvrtc_.get_program_log(program_, text.data()) != api::kNvrtcSuccess) return "";
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    if (text.size() > kLogBytes) text = text.substr(0, kLogBytes) + "\n...";
    return text;
  }

 private:
  const Nvrtc& nvrtc_;
  api::NvrtcProgram program_ = nullptr;
};

}  // namespace

namespace {

/// NVRTC opens a second library by its bare name, which the dynamic linker finds outside of its
/// folders only if it is loaded already. PyPI's has several in its folder.
void open_builtins(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
    if (file.path().filename().string().starts_with("libnvrtc-builtins.so"))
      dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
}

}  // namespace

std::shared_ptr<const Nvrtc> open_nvrtc(const SearchPath& search, int sm, Version driver) {
  auto nvrtc = std::make_shared<Nvrtc>();
  const Search found = open_library(Library::kNvrtc, search, [&](const OpenLibrary& library) {
    nvrtc->library = std::make_shared<const OpenLibrary>(library);
    if (!load(*nvrtc)) return fmt::format("it is not a whole NVRTC");
    return refusal(*nvrtc, sm, driver);
  });
  if (found.library != nullptr) {
    open_builtins(found.library->path().parent_path());
    return nvrtc;
  }
  fail(ErrorCode::kDevice, "kernels cannot be compiled{}: {}",
       sm == 0 ? "" : fmt::format(" for sm_{}, which needs {}", sm, needed(sm)),
       found.explain(Library::kNvrtc));
}

std::string source_name(const std::string& source) {
  // extern "C" __global__ void __launch_bounds__(T) NAME(const __grid_constant__ ...
  const auto is_name = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c));
  };
  const std::size_t end = source.find("(const __grid_constant__");
  std::size_t begin = end == std::string::npos ? 0 : end;
  while (begin > 0 && is_name(source[begin - 1])) --begin;
  if (end == std::string::npos || begin == end) return "kernel.cu";
  return source.substr(begin, end - begin) + ".cu";
}

NvrtcCompiler::NvrtcCompiler(std::shared_ptr<const Nvrtc> nvrtc, int sm,
                             const std::vector<DeviceHeader>& headers, int threads)
    : nvrtc_(std::move(nvrtc)), threads_(threads > 0 ? threads : cpu_device(0).units) {
  ptx_ = as_ptx(*nvrtc_, sm);
  architecture_ = ptx_       ? fmt::format("compute_{}", nvrtc_->archs.back())
                  : sm == 90 ? "sm_90a"
                             : fmt::format("sm_{}", sm);
  Hasher hasher;
  for (const DeviceHeader& header : headers) {
    header_names_.push_back(header.name);
    header_texts_.push_back(header.text);
    hasher.add(std::string_view(header.name));
    hasher.add(std::string_view(header.text));
  }
  identity_ = fmt::format("NVRTC {} {} {} headers {}", to_string(nvrtc_->library->version()),
                          kLanguage, architecture_, to_string(hasher.digest()));
}

std::string NvrtcCompiler::compile_one(const std::string& source) const {
  const std::string name = source_name(source);
  Program program(*nvrtc_);
  const auto check = [&](api::NvrtcResult result, const char* doing) {
    if (result == api::kNvrtcOutOfMemory)
      fail(ErrorCode::kOutOfMemory, "NVRTC ran out of memory {} {}", doing, name);
    if (result != api::kNvrtcSuccess)
      fail(ErrorCode::kInternal, "NVRTC {} failed {} {} for {}: error {}\n{}",
           to_string(nvrtc_->library->version()), doing, name, architecture_, result,
           program.get() != nullptr ? program.log() : "");
  };
  check(nvrtc_->create_program(program.out(), source.c_str(), name.c_str(),
                               static_cast<int>(header_texts_.size()), header_texts_.data(),
                               header_names_.data()),
        "reading");
  const std::string architecture = "--gpu-architecture=" + architecture_;
  const std::array options = {kLanguage, architecture.c_str()};
  check(nvrtc_->compile_program(program.get(), static_cast<int>(options.size()), options.data()),
        "compiling");
  const auto get_size = ptx_ ? nvrtc_->get_ptx_size : nvrtc_->get_cubin_size;
  const auto get = ptx_ ? nvrtc_->get_ptx : nvrtc_->get_cubin;
  std::size_t bytes = 0;
  check(get_size(program.get(), &bytes), "sizing");
  std::string image(bytes, '\0');
  check(get(program.get(), image.data()), "fetching");
  return image;
}

std::vector<std::string> NvrtcCompiler::compile(std::span<const std::string> sources) {
  std::map<std::string_view, std::size_t> seen;  // source -> its place in `once`
  std::vector<const std::string*> once;
  for (const std::string& source : sources)
    if (seen.try_emplace(source, once.size()).second) once.push_back(&source);

  std::vector<std::string> images(once.size());
  for_each_index(once.size(), threads_, [&](std::size_t i) { images[i] = compile_one(*once[i]); });

  std::vector<std::string> result;
  for (const std::string& source : sources) result.push_back(images[seen.at(source)]);
  return result;
}

}  // namespace braze::cuda
