#include "exec/cuda/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include "exec/cuda/api.hpp"

namespace braze::cuda {
namespace {

namespace fs = std::filesystem;

struct Names {
  const char* text;
  std::vector<const char*> files;    // newest first
  std::vector<const char*> folders;  // of PyPI's packages, below site-packages
  const char* parts = "";            // what the names of all its libraries begin with
};

const Names& names(Library library) {
  static const std::array<Names, 4> all = {{
      // libcuda.so without a number may be the toolkit's stub.
      {"the CUDA driver", {"libcuda.so.1"}, {}},
      {"NVRTC",
       {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"},
       {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}},
      // Not libcudnn.so: that ends the process if one of its parts is missing.
      {"cuDNN",
       {"libcudnn_graph.so.9", "libcudnn_ops_infer.so.8"},
       {"nvidia/cudnn/lib"},
       "libcudnn"},
      {"the CUDA run time",
       {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
       {"nvidia/cu13/lib", "nvidia/cuda_runtime/lib"}},
  }};
  return all.at(static_cast<std::size_t>(library));
}

constexpr const char* kLoaded = "loaded already";

fs::path from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// 11 for "python3.11"; nullopt for anything else.
std::optional<int> python_minor(const std::string& folder) {
  constexpr std::string_view kPrefix = "python3.";
  int minor = 0;
  if (!folder.starts_with(kPrefix)) return std::nullopt;
  const auto [end, error] =
      std::from_chars(folder.data() + kPrefix.size(), folder.data() + folder.size(), minor);
  if (error != std::errc() || end != folder.data() + folder.size()) return std::nullopt;
  return minor;
}

/// Appends the package folders below a Python prefix, newest Python first.
void add_packages(const fs::path& prefix, std::vector<fs::path>& packages) {
  if (prefix.empty()) return;
  std::vector<std::pair<int, fs::path>> pythons;
  std::error_code error;
  for (fs::directory_iterator entry(prefix / "lib", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto minor = python_minor(entry->path().filename().string());
    if (minor) pythons.emplace_back(-*minor, entry->path());
  }
  std::ranges::sort(pythons);
  pythons.emplace_back(0, prefix / "lib/python3");  // Debian's dist-packages
  for (const auto& [order, python] : pythons) {
    for (const char* kind : {"site-packages", "dist-packages"}) {
      const fs::path folder = python / kind;
      if (fs::is_directory(folder, error) && std::ranges::find(packages, folder) == packages.end())
        packages.push_back(folder);
    }
  }
}

/// Site-packages folders that the process named.
struct ProcessPackages {
  std::mutex mutex;
  std::vector<fs::path> folders;
};
ProcessPackages& process_packages() {
  static ProcessPackages packages;
  return packages;
}

/// The folder above that of the first python3 in PATH; "" if there is none.
fs::path python_prefix() {
  std::istringstream path(from_environment("PATH").string());
  for (std::string folder; std::getline(path, folder, ':');) {
    std::error_code error;
    const fs::path bin = folder;
    if (bin.is_absolute() && fs::exists(bin / "python3", error)) return bin.parent_path();
  }
  return {};
}

void add_folder(Library library, const char* origin, const fs::path& folder,
                std::vector<Place>& result) {
  for (const char* file : names(library).files) result.push_back({origin, folder / file});
}

void add_packages_in(Library library, const char* origin, const fs::path& folder,
                     std::vector<Place>& result) {
  for (const char* package : names(library).folders)
    add_folder(library, origin, folder / package, result);
}

/// ".so.9" of "libcudnn_ops.so.9.1".
std::string_view major_of(std::string_view file) {
  const std::size_t begin = file.find(".so.");
  if (begin == std::string_view::npos) return "";
  return file.substr(begin, file.find('.', begin + 4) - begin);
}

/// The library itself where it is loaded, or what lies beside another part of it.
void add_loaded(Library library, const std::vector<fs::path>& loaded, std::vector<Place>& result) {
  const auto add = [&](fs::path file) {
    if (std::ranges::find(result, file, &Place::file) == result.end())
      result.push_back({kLoaded, std::move(file)});
  };
  const auto& [text, files, folders, parts] = names(library);
  for (const char* file : files)
    for (const fs::path& one : loaded)
      if (one.filename() == file) add(one);
  if (*parts == '\0') return;
  for (const char* file : files)
    for (const fs::path& one : loaded)
      if (const std::string name = one.filename().string();
          name.starts_with(parts) && major_of(name) == major_of(file))
        add(one.parent_path() / file);
}

/// A folder that somebody named: the libraries' own, a toolkit, or a site-packages folder.
void add_named(Library library, const char* origin, const fs::path& folder,
               std::vector<Place>& result) {
  if (folder.empty()) return;
  for (const fs::path& place : {folder, folder / "lib64", folder / "lib"})
    add_folder(library, origin, place, result);
  add_packages_in(library, origin, folder, result);
}

std::optional<Version> read_version(Library library, void* handle) {
  const auto find = [handle]<class Function>(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle, symbol));
    return function != nullptr;
  };
  int (*single)(int*) = nullptr;
  int number = 0;
  switch (library) {
    case Library::kDriver:
    case Library::kCudart:
      if (!find(library == Library::kDriver ? "cuDriverGetVersion" : "cudaRuntimeGetVersion",
                single) ||
          single(&number) != 0)
        return std::nullopt;
      return Version{number / 1000, number % 1000 / 10};
    case Library::kNvrtc: {
      int (*both)(int*, int*) = nullptr;
      Version version;
      if (!find("nvrtcVersion", both) || both(&version.major, &version.minor) != 0)
        return std::nullopt;
      return version;
    }
    case Library::kCudnn: {
      std::size_t (*whole)() = nullptr;
      if (!find("cudnnGetVersion", whole)) return std::nullopt;
      const int value = static_cast<int>(whole());
      const int unit = value >= 90000 ? 10000 : 1000;  // 90800: 9.8.0; 8907: 8.9.7
      return Version{value / unit, value % unit / 100, value % 100};
    }
  }
  return std::nullopt;
}

/// The path under which the dynamic linker has a library.
fs::path loaded_path(void* handle, const fs::path& otherwise) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0 || map == nullptr ||
      map->l_name == nullptr || map->l_name[0] == '\0')
    return otherwise;
  return map->l_name;
}

/// All libraries of the process by their paths.
std::vector<fs::path> loaded_files() {
  std::vector<fs::path> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t /*bytes*/, void* list) {
        if (info->dlpi_name != nullptr && info->dlpi_name[0] == '/')
          static_cast<std::vector<fs::path>*>(list)->emplace_back(info->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

/// Why a file is taken; of one that was opened here, which makes it loaded, why it was then.
std::string origin_of(const fs::path& file, const std::string& origin) {
  static std::mutex mutex;
  static std::map<fs::path, std::string> origins;
  const std::lock_guard lock(mutex);
  if (origin != kLoaded) origins[file] = origin;
  const auto found = origins.find(file);
  return found != origins.end() ? found->second : origin;
}

constexpr const char* kNoFile = "no such file";
constexpr const char* kTriedAlready = "it is a library that was tried already";

}  // namespace

const char* to_string(Library library) { return names(library).text; }

std::string to_string(const Version& version) {
  return version.patch < 0 ? fmt::format("{}.{}", version.major, version.minor)
                           : fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

void add_process_packages(const fs::path& site_packages) {
  ProcessPackages& mine = process_packages();
  const std::lock_guard lock(mine.mutex);
  if (std::ranges::find(mine.folders, site_packages) == mine.folders.end())
    mine.folders.push_back(site_packages);
}

SearchPath SearchPath::of_process(const fs::path& option) {
  SearchPath search;
  {
    ProcessPackages& mine = process_packages();
    const std::lock_guard lock(mine.mutex);
    search.named = mine.folders;
  }
  search.loaded = loaded_files();
  search.option = option;
  search.environment = from_environment("BRAZE_CUDA_PATH");
  const fs::path home = from_environment("HOME");
  for (const fs::path& prefix :
       {from_environment("VIRTUAL_ENV"), from_environment("CONDA_PREFIX"), python_prefix(),
        home.empty() ? fs::path() : home / ".local", fs::path("/usr/local"), fs::path("/usr")})
    add_packages(prefix, search.packages);
  return search;
}

std::vector<Place> places(Library library, const SearchPath& search) {
  std::vector<Place> result;
  add_named(library, "option", search.option, result);
  add_named(library, "BRAZE_CUDA_PATH", search.environment, result);
  add_loaded(library, search.loaded, result);
  for (const fs::path& folder : search.named)
    add_packages_in(library, "PyPI package of this process", folder, result);
  if (search.linker)
    for (const char* file : names(library).files) result.push_back({"dynamic linker", file});
  for (const fs::path& folder : search.packages)
    add_packages_in(library, "PyPI package", folder, result);
  if (library == Library::kDriver) {
    for (const fs::path& folder : search.drivers) add_folder(library, "driver", folder, result);
  } else if (!search.toolkit.empty()) {
    add_folder(library, "toolkit", search.toolkit / "lib64", result);
  }
  return result;
}

void* OpenLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

Search open_library(Library library, const SearchPath& search, const Refusal& refusal) {
  Search result;
  std::vector<void*> handles;
  for (Place& place : places(library, search)) {
    const bool bare = !place.file.has_parent_path();
    std::error_code error;
    if (!bare && !fs::exists(place.file, error)) {
      result.tried.push_back({std::move(place), kNoFile});
      continue;
    }
    void* handle = dlopen(place.file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
      const char* why = dlerror();
      result.tried.push_back({std::move(place), why != nullptr ? why : "it cannot be opened"});
      continue;
    }
    if (std::ranges::find(handles, handle) != handles.end()) {
      result.tried.push_back({std::move(place), kTriedAlready});
      continue;
    }
    handles.push_back(handle);
    const auto version = read_version(library, handle);
    if (!version) {
      result.tried.push_back(
          {std::move(place), fmt::format("it is not {}: it tells no version", to_string(library))});
      continue;
    }
    const fs::path path = loaded_path(handle, place.file);
    OpenLibrary opened(handle, path, place.origin, *version);
    std::string why = refusal ? refusal(opened) : "";
    if (why.empty()) {
      result.library = std::make_shared<const OpenLibrary>(handle, path,
                                                           origin_of(path, place.origin), *version);
      return result;
    }
    result.tried.push_back({std::move(place), std::move(why)});
  }
  return result;
}

std::string Search::explain(Library what) const {
  // A place is a folder; one that holds any of the files is told file by file.
  std::vector<std::string> empty, full, reasons;
  const auto add = [](std::vector<std::string>& list, const std::string& text) {
    if (std::ranges::find(list, text) == list.end()) list.push_back(text);
  };
  const auto folder_of = [](const Place& place) {
    return place.file.has_parent_path() ? place.file.parent_path().string()
                                        : "the dynamic linker's folders";
  };
  for (const auto& [place, why] : tried) {
    const bool absent = why == kNoFile || (!place.file.has_parent_path() &&
                                           why.find("No such file") != std::string::npos);
    if (absent) continue;
    add(full, folder_of(place));
    if (why != kTriedAlready) add(reasons, fmt::format("{}: {}", place.file.string(), why));
  }
  for (const Attempt& attempt : tried)
    if (const std::string folder = folder_of(attempt.place);
        std::ranges::find(full, folder) == full.end())
      add(empty, folder);
  const char* name = to_string(what);
  if (reasons.empty())
    return fmt::format("{} was not found: there is no {} in {}", name,
                       fmt::join(names(what).files, ", "), fmt::join(empty, ", "));
  std::string text =
      fmt::format("{} that was found is of no use: {}", name, fmt::join(reasons, "; "));
  return empty.empty() ? text : text + fmt::format("; there is none in {}", fmt::join(empty, ", "));
}

}  // namespace braze::cuda
