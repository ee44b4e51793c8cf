// NVIDIA's shared libraries, opened when first needed. Where they are looked for, in this order:
//   1. the folder the caller names,
//   2. the folder that BRAZE_CUDA_PATH names,
//      (of both: the folder itself, its lib64 and lib, and nvidia/... in it as in 4)
//   3. where the process has loaded it from, or another part of it: cuDNN is ten libraries that
//      refuse each other if their versions differ,
//   4. the nvidia packages of PyPI: nvidia/cu13/lib, nvidia/cuda_nvrtc/lib, nvidia/cudnn/lib ... in
//      folders that the process named: there torch, CuPy and JAX, loaded later, will look,
//   5. the dynamic linker: LD_LIBRARY_PATH, the system's folders,
//   6. the packages as in 4 in the site-packages of VIRTUAL_ENV, of CONDA_PREFIX, of the first
//      python3 in PATH, of the user, and of /usr/local and /usr,
//   7. /usr/local/cuda/lib64 (and for the driver where containers put it).
// In each place newer versions come first. Once opened, a library stays until the process ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace braze::cuda {

enum class Library : std::uint8_t { kDriver, kNvrtc, kCudnn, kCudart };

/// "the CUDA driver", "NVRTC", "cuDNN", "the CUDA run time"
const char* to_string(Library library);

/// What the search order is made from.
struct SearchPath {
  std::filesystem::path option;                       // 1; "": none
  std::filesystem::path environment;                  // 2; "": none
  std::vector<std::filesystem::path> loaded;          // 3: files of all libraries of the process
  std::vector<std::filesystem::path> named;           // 4: site-packages folders
  bool linker = true;                                 // 5
  std::vector<std::filesystem::path> packages;        // 6: site-packages folders
  std::filesystem::path toolkit = "/usr/local/cuda";  // 7; "": none
  std::vector<std::filesystem::path> drivers = {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64"};

  /// That of this process, with its environment read.
  static SearchPath of_process(const std::filesystem::path& option = {});
};

/// Names a site-packages folder for all searches of the process from now on. Any thread.
void add_process_packages(const std::filesystem::path& site_packages);

/// A file to try: a path, or a bare name for the dynamic linker.
struct Place {
  /// "option", "BRAZE_CUDA_PATH", "loaded already", "PyPI package of this process", "dynamic
  /// linker", "PyPI package", "toolkit", "driver"
  std::string origin;
  std::filesystem::path file;
};

/// All files that are tried for a library, in order.
std::vector<Place> places(Library library, const SearchPath& search);

/// "13.0", "9.8.0"; compared as numbers.
struct Version {
  int major = 0, minor = 0, patch = -1;  // patch -1: the library has none
  auto operator<=>(const Version&) const = default;
};
std::string to_string(const Version& version);

class OpenLibrary {
 public:
  OpenLibrary(void* handle, std::filesystem::path path, std::string origin, Version version)
      : handle_(handle), path_(std::move(path)), origin_(std::move(origin)), version_(version) {}
  /// Null if the library has no such symbol.
  [[nodiscard]] void* symbol(const char* name) const;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Place::origin; of one loaded already because it was opened here, that of then.
  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] const Version& version() const { return version_; }

 private:
  void* handle_;
  std::filesystem::path path_;  // as the dynamic linker has it
  std::string origin_;
  Version version_;
};

/// A place that was tried, and why it was not taken.
struct Attempt {
  Place place;
  std::string why;
};

struct Search {
  std::shared_ptr<const OpenLibrary> library;  // null: not found
  std::vector<Attempt> tried;                  // what came before it in the order, or everything
  /// "NVRTC was not found: ..." with every place and reason, places without a file summed up.
  [[nodiscard]] std::string explain(Library what) const;
};

/// Why a library that could be opened is not the one wanted; "" if it is.
using Refusal = std::function<std::string(const OpenLibrary&)>;

/// The first place whose file opens, tells its version and is not refused. Never throws but for
/// lack of memory. Any thread.
Search open_library(Library library, const SearchPath& search, const Refusal& refusal = {});

}  // namespace braze::cuda
