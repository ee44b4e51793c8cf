// Where NVIDIA's libraries are looked for, and what is said when they are not there.
#include "exec/cuda/library.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "exec_cuda/fakes.hpp"

namespace braze::cuda {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> files(Library library, const SearchPath& search) {
  std::vector<std::string> result;
  for (const Place& place : places(library, search))
    result.push_back(place.origin + " " + place.file.string());
  return result;
}

/// An environment variable set for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (old_) ::setenv(name_, old_->c_str(), 1);
    if (!old_) ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Library, OrderOfPlaces) {
  SearchPath search;
  search.option = "/o";
  search.environment = "/e";
  search.loaded = {"/l/libcudnn_ops.so.9", "/m/libcudnn_graph.so.9", "/m/libcudnn.so.8",
                   "/m/libc.so"};
  search.named = {"/n"};
  search.packages = {"/p", "/q"};
  search.toolkit = "/t";
  EXPECT_THAT(
      files(Library::kCudnn, search),
      ElementsAre(
          "option /o/libcudnn_graph.so.9", "option /o/libcudnn_ops_infer.so.8",
          "option /o/lib64/libcudnn_graph.so.9", "option /o/lib64/libcudnn_ops_infer.so.8",
          "option /o/lib/libcudnn_graph.so.9", "option /o/lib/libcudnn_ops_infer.so.8",
          "option /o/nvidia/cudnn/lib/libcudnn_graph.so.9",
          "option /o/nvidia/cudnn/lib/libcudnn_ops_infer.so.8",
          "BRAZE_CUDA_PATH /e/libcudnn_graph.so.9", "BRAZE_CUDA_PATH /e/libcudnn_ops_infer.so.8",
          "BRAZE_CUDA_PATH /e/lib64/libcudnn_graph.so.9",
          "BRAZE_CUDA_PATH /e/lib64/libcudnn_ops_infer.so.8",
          "BRAZE_CUDA_PATH /e/lib/libcudnn_graph.so.9",
          "BRAZE_CUDA_PATH /e/lib/libcudnn_ops_infer.so.8",
          "BRAZE_CUDA_PATH /e/nvidia/cudnn/lib/libcudnn_graph.so.9",
          "BRAZE_CUDA_PATH /e/nvidia/cudnn/lib/libcudnn_ops_infer.so.8",
          "loaded already /m/libcudnn_graph.so.9", "loaded already /l/libcudnn_graph.so.9",
          "loaded already /m/libcudnn_ops_infer.so.8",
          "PyPI package of this process /n/nvidia/cudnn/lib/libcudnn_graph.so.9",
          "PyPI package of this process /n/nvidia/cudnn/lib/libcudnn_ops_infer.so.8",
          "dynamic linker libcudnn_graph.so.9", "dynamic linker libcudnn_ops_infer.so.8",
          "PyPI package /p/nvidia/cudnn/lib/libcudnn_graph.so.9",
          "PyPI package /p/nvidia/cudnn/lib/libcudnn_ops_infer.so.8",
          "PyPI package /q/nvidia/cudnn/lib/libcudnn_graph.so.9",
          "PyPI package /q/nvidia/cudnn/lib/libcudnn_ops_infer.so.8",
          "toolkit /t/lib64/libcudnn_graph.so.9", "toolkit /t/lib64/libcudnn_ops_infer.so.8"));
}

TEST(Library, NvrtcInPackagesAndToolkit) {
  SearchPath search;
  search.packages = {"/p"};
  EXPECT_THAT(files(Library::kNvrtc, search),
              ElementsAre("dynamic linker libnvrtc.so.13", "dynamic linker libnvrtc.so.12",
                          "dynamic linker libnvrtc.so.11.2",
                          "PyPI package /p/nvidia/cu13/lib/libnvrtc.so.13",
                          "PyPI package /p/nvidia/cu13/lib/libnvrtc.so.12",
                          "PyPI package /p/nvidia/cu13/lib/libnvrtc.so.11.2",
                          "PyPI package /p/nvidia/cuda_nvrtc/lib/libnvrtc.so.13",
                          "PyPI package /p/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
                          "PyPI package /p/nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2",
                          "toolkit /usr/local/cuda/lib64/libnvrtc.so.13",
                          "toolkit /usr/local/cuda/lib64/libnvrtc.so.12",
                          "toolkit /usr/local/cuda/lib64/libnvrtc.so.11.2"));
}

TEST(Library, TheDriverIsNeverTheToolkitsStub) {
  for (const Place& place : places(Library::kDriver, SearchPath{})) {
    EXPECT_EQ(place.file.filename(), "libcuda.so.1");
    EXPECT_THAT(place.file.string(), Not(HasSubstr("/usr/local/cuda/")));
  }
}

TEST(Library, EnvironmentOfTheProcess) {
  const TemporaryFolder root;
  const fs::path venv = root.path() / "venv";
  const fs::path conda = root.path() / "conda";
  const fs::path home = root.path() / "home";
  const fs::path python = root.path() / "python";
  fs::create_directories(venv / "lib/python3.9/site-packages");
  fs::create_directories(venv / "lib/python3.12/site-packages");
  fs::create_directories(venv / "lib/python3.x/site-packages");
  fs::create_directories(conda / "lib/python3.11/site-packages");
  fs::create_directories(home / ".local/lib/python3.11/site-packages");
  fs::create_directories(python / "lib/python3.10/site-packages");
  write_text(python / "bin/python3", "");
  const Variable variables[] = {
      {"BRAZE_CUDA_PATH", "/from/environment"},
      {"VIRTUAL_ENV", venv},
      {"CONDA_PREFIX", conda},
      {"HOME", home},
      {"PATH", "relative:" + (root.path() / "none").string() + ":" + (python / "bin").string()}};
  const SearchPath search = SearchPath::of_process("/option");
  EXPECT_EQ(search.option, "/option");
  EXPECT_EQ(search.environment, "/from/environment");
  ASSERT_GE(search.packages.size(), 5U);
  EXPECT_EQ(search.packages[0], venv / "lib/python3.12/site-packages");
  EXPECT_EQ(search.packages[1], venv / "lib/python3.9/site-packages");
  EXPECT_EQ(search.packages[2], conda / "lib/python3.11/site-packages");
  EXPECT_EQ(search.packages[3], python / "lib/python3.10/site-packages");
  EXPECT_EQ(search.packages[4], home / ".local/lib/python3.11/site-packages");
}

TEST(Library, FoldersThatTheProcessNamed) {
  const TemporaryFolder root;
  for (int twice = 0; twice < 2; ++twice) add_process_packages(root.path());
  const std::vector<fs::path> named = SearchPath::of_process().named;
  EXPECT_EQ(std::count(named.begin(), named.end(), root.path()), 1);
}

/// A cuDNN of the system that the dynamic linker would find, one of PyPI's that the process named.
struct TwoOfThem {
  TemporaryFolder root;
  fs::path system = root.path() / "system", packages = root.path() / "site-packages";
  SearchPath search = only("");

  TwoOfThem() {
    for (const fs::path& folder : {system, packages / "nvidia/cudnn/lib"}) {
      fs::create_directories(folder);
      for (const char* name : {"libcudnn_graph.so.9", "libcudnn_ops.so.9"})
        fs::copy_file(fs::path(BRAZE_FAKE_CUDNN) / "libcudnn_graph.so.9", folder / name);
    }
    search.toolkit = root.path() / "toolkit";
    fs::create_directories(search.toolkit);
    fs::create_directory_symlink(system, search.toolkit / "lib64");
    search.named = {packages};
  }
  std::pair<fs::path, std::string> find() {
    const Search found = open_library(Library::kCudnn, search);
    if (found.library == nullptr) return {"", found.explain(Library::kCudnn)};
    return {found.library->path(), found.library->origin()};
  }
};

TEST(Library, PackagesOfTheProcessComeFirst) {
  TwoOfThem both;
  EXPECT_EQ(both.find(), std::pair(both.packages / "nvidia/cudnn/lib/libcudnn_graph.so.9",
                                   std::string("PyPI package of this process")));
  // Told again why it was opened, not that it is loaded now.
  both.search.loaded = SearchPath::of_process().loaded;
  std::erase_if(both.search.loaded, [&](const fs::path& file) {
    return !file.string().starts_with(both.root.path().string());
  });
  ASSERT_EQ(both.search.loaded.size(), 1U);
  both.search.named.clear();
  EXPECT_EQ(both.find(), std::pair(both.packages / "nvidia/cudnn/lib/libcudnn_graph.so.9",
                                   std::string("PyPI package of this process")));
}

TEST(Library, WhatIsLoadedAlreadyComesBeforePackages) {
  TwoOfThem both;
  const fs::path part = both.system / "libcudnn_ops.so.9";  // another part of it is enough
  ASSERT_NE(dlopen(part.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  both.search.loaded = SearchPath::of_process().loaded;
  EXPECT_EQ(std::count(both.search.loaded.begin(), both.search.loaded.end(), part), 1);
  std::erase_if(both.search.loaded, [&](const fs::path& file) { return file != part; });
  EXPECT_EQ(both.find(),
            std::pair(both.system / "libcudnn_graph.so.9", std::string("loaded already")));
  both.search.environment = both.packages;  // what somebody named comes first all the same
  EXPECT_EQ(both.find(), std::pair(both.packages / "nvidia/cudnn/lib/libcudnn_graph.so.9",
                                   std::string("BRAZE_CUDA_PATH")));
  both.search.option = both.system;
  EXPECT_EQ(both.find().second, "option");
}

TEST(Library, FoundInEachKindOfFolder) {
  const TemporaryFolder root;
  const fs::path source = fs::path(BRAZE_FAKE_CUDNN) / "libcudnn_graph.so.9";
  SearchPath search = only("");
  const auto found_in = [&](const fs::path& folder) {
    fs::create_directories(folder);
    fs::copy_file(source, folder / "libcudnn_graph.so.9");
    const Search found = open_library(Library::kCudnn, search);
    fs::remove(folder / "libcudnn_graph.so.9");
    EXPECT_NE(found.library, nullptr) << found.explain(Library::kCudnn);
    if (found.library == nullptr) return std::string();
    EXPECT_EQ(found.library->path(), folder / "libcudnn_graph.so.9");
    EXPECT_EQ(to_string(found.library->version()), "9.8.1");
    return found.library->origin();
  };
  search.option = root.path() / "option";
  search.environment = root.path() / "environment";
  search.packages = {root.path() / "site-packages"};
  search.toolkit = root.path() / "cuda";
  EXPECT_EQ(found_in(root.path() / "cuda/lib64"), "toolkit");
  EXPECT_EQ(found_in(root.path() / "site-packages/nvidia/cudnn/lib"), "PyPI package");
  EXPECT_EQ(found_in(root.path() / "environment/lib"), "BRAZE_CUDA_PATH");
  EXPECT_EQ(found_in(root.path() / "option"), "option");
}

TEST(Library, VersionsOfAllKinds) {
  const auto version = [](Library library, const char* folder) {
    const Search found = open_library(library, only(fakes(folder)));
    return found.library == nullptr ? found.explain(library) : to_string(found.library->version());
  };
  fake_driver().version = 12080;
  EXPECT_EQ(version(Library::kDriver, "driver"), "12.8");
  EXPECT_EQ(version(Library::kNvrtc, "cuda13"), "13.3");
  EXPECT_EQ(version(Library::kNvrtc, "cuda12"), "12.3");
  EXPECT_EQ(version(Library::kCudart, "cuda13"), "13.0");
}

TEST(Library, EveryPlaceAndReasonIsToldWhenNothingFits) {
  const TemporaryFolder root;
  write_text(root.path() / "libcudnn_graph.so.9", "this is no library");
  fs::copy_file(fakes("driver") / "libcuda.so.1", root.path() / "libcudnn_ops_infer.so.8");
  const Search found = open_library(Library::kCudnn, only(root.path()));
  ASSERT_EQ(found.library, nullptr);
  ASSERT_EQ(found.tried.size(), places(Library::kCudnn, only(root.path())).size());
  EXPECT_THAT(found.tried[0].why, HasSubstr("libcudnn_graph.so.9"));
  EXPECT_EQ(found.tried[1].why, "it is not cuDNN: it tells no version");
  EXPECT_EQ(found.tried[2].why, "no such file");
  const std::string text = found.explain(Library::kCudnn);
  EXPECT_THAT(text, StartsWith("cuDNN that was found is of no use: "));
  EXPECT_THAT(text, HasSubstr("it tells no version"));
  EXPECT_THAT(text, HasSubstr((root.path() / "nvidia/cudnn/lib").string()));
}

TEST(Library, TheDynamicLinkerIsOnePlace) {
  SearchPath search = only("");
  search.linker = true;
  const Search found = open_library(Library::kDriver, search);
  if (found.library != nullptr) GTEST_SKIP() << "there is a driver here";
  EXPECT_EQ(
      found.explain(Library::kDriver),
      "the CUDA driver was not found: there is no libcuda.so.1 in the dynamic linker's folders");
}

TEST(Library, ARefusedOneIsPassedOver) {
  SearchPath search = only(fakes("cuda13"));
  search.environment = fakes("cuda12");
  const Search found =
      open_library(Library::kNvrtc, search, [](const OpenLibrary& library) -> std::string {
        return library.version().major == 13 ? "it is unlucky" : "";
      });
  ASSERT_NE(found.library, nullptr);
  EXPECT_EQ(found.library->version().major, 12);
  EXPECT_EQ(found.library->origin(), "BRAZE_CUDA_PATH");
  ASSERT_FALSE(found.tried.empty());
  EXPECT_EQ(found.tried[0].why, "it is unlucky");
}

TEST(Library, ALibraryThatIsReachedTwiceIsToldOnce) {
  const TemporaryFolder root;
  fs::create_symlink(fs::path(BRAZE_FAKE_CUDNN) / "libcudnn_graph.so.9",
                     root.path() / "libcudnn_graph.so.9");
  SearchPath search = only(BRAZE_FAKE_CUDNN);
  search.environment = root.path();
  const Search found =
      open_library(Library::kCudnn, search, [](const OpenLibrary&) { return "it is unlucky"; });
  ASSERT_EQ(found.library, nullptr);
  const std::string text = found.explain(Library::kCudnn);
  EXPECT_THAT(text, HasSubstr((fs::path(BRAZE_FAKE_CUDNN) / "libcudnn_graph.so.9").string() +
                              ": it is unlucky;"));
  EXPECT_EQ(text.find("unlucky"), text.rfind("unlucky"));
  EXPECT_THAT(text, Not(HasSubstr(root.path().string() + ",")));
}

TEST(Library, OpenedByManyThreadsAtOnce) {
  std::vector<std::jthread> threads;
  std::atomic<int> found = 0;
  SearchPath search = only(fakes("cuda13"));
  search.environment = BRAZE_FAKE_CUDNN;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (const Library library : {Library::kNvrtc, Library::kCudnn, Library::kCudart})
        if (open_library(library, search).library != nullptr) ++found;
    });
  threads.clear();
  EXPECT_EQ(found, 24);
}

}  // namespace
}  // namespace braze::cuda
