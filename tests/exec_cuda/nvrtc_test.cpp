// Choosing an NVRTC and compiling with it: a stand-in everywhere, the real one where it is found.
#include "exec/cuda/nvrtc.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include "exec_cuda/fakes.hpp"
#include "kernels/cuda/kernel.hpp"

namespace braze::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// NVRTC 13 first, then NVRTC 12.
SearchPath both() {
  SearchPath search = only(fakes("cuda13"));
  search.environment = fakes("cuda12");
  return search;
}

std::string source_of(const std::string& entry) {
  return "extern \"C\" __global__ void " + entry + "(const __grid_constant__ float p) {}\n";
}

int compiled_so_far(const Nvrtc& nvrtc) {
  return reinterpret_cast<int (*)()>(nvrtc.library->symbol("fake_nvrtc_compiled"))();
}

TEST(Nvrtc, TheNewestThatCompilesForTheSm) {
  EXPECT_EQ(open_nvrtc(both())->library->version().major, 13);
  EXPECT_EQ(open_nvrtc(both(), 90)->library->version().major, 13);
  EXPECT_EQ(open_nvrtc(both(), 70)->library->version().major, 12);
  EXPECT_THAT(open_nvrtc(both(), 75)->archs, testing::ElementsAre(75, 80, 86, 89, 90, 100));
}

// The one of PyPI asks for it by its bare name, and the dynamic linker does not know that folder.
TEST(Nvrtc, TheLibraryBesideItIsLoadedToo) {
  open_nvrtc(only(fakes("cuda13")));
  const std::filesystem::path builtins = fakes("cuda13") / "libnvrtc-builtins.so.13.3";
  EXPECT_NE(dlopen(builtins.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(Nvrtc, NotNewerThanTheDriver) {
  EXPECT_EQ(open_nvrtc(both(), 90, {12, 8})->library->version().major, 12);
  EXPECT_EQ(open_nvrtc(both(), 90, {13, 0})->library->version().major, 13);
  const Error error = error_of([&] { open_nvrtc(both(), 90, {11, 8}); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message,
              HasSubstr("NVRTC 12.3, whose output the driver for CUDA 11.8 does not load"));
}

TEST(Nvrtc, AnSmThatItLacksSaysWhichIsNeeded) {
  const Error error = error_of([&] { open_nvrtc(only(fakes("cuda13")), 70); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_EQ(exit_code(error.code), 4);
  EXPECT_THAT(error.message,
              AllOf(StartsWith("kernels cannot be compiled for sm_70, which needs NVRTC 11 to 12"),
                    HasSubstr("it is NVRTC 13.3, which compiles for sm_75 to sm_100")));
}

TEST(Nvrtc, NoneAtAll) {
  const TemporaryFolder empty;
  const Error error = error_of([&] { open_nvrtc(only(empty.path())); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message, AllOf(HasSubstr("kernels cannot be compiled: NVRTC was not found"),
                                   HasSubstr(empty.path().string())));
}

TEST(Nvrtc, OptionsHeadersAndOrder) {
  const std::vector<DeviceHeader> headers = {{"braze/a.cuh", "//a"}, {"braze/b.cuh", "//b"}};
  NvrtcCompiler compiler(open_nvrtc(both(), 90), 90, headers, 3);
  std::vector<std::string> sources;
  for (int i = 0; i < 20; ++i) sources.push_back(source_of("k" + std::to_string(i)));
  const auto images = compiler.compile(sources);
  ASSERT_EQ(images.size(), sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i)
    EXPECT_EQ(
        images[i],
        "cubin\n-std=c++17\n--gpu-architecture=sm_90a\nbraze/a.cuh\nbraze/b.cuh\n" + sources[i]);
  EXPECT_TRUE(compiler.compile({}).empty());
}

TEST(Nvrtc, EqualSourcesOnce) {
  const auto nvrtc = open_nvrtc(both(), 80);
  NvrtcCompiler compiler(nvrtc, 80, {}, 2);
  const int before = compiled_so_far(*nvrtc);
  const std::vector<std::string> sources = {source_of("a"), source_of("b"), source_of("a")};
  const auto images = compiler.compile(sources);
  EXPECT_EQ(compiled_so_far(*nvrtc) - before, 2);
  EXPECT_EQ(images[0], images[2]);
  EXPECT_THAT(images[1], HasSubstr("void b("));
}

TEST(Nvrtc, ANewerGpuGetsPtxOfTheNewestArchitecture) {
  NvrtcCompiler compiler(open_nvrtc(both(), 120), 120, {}, 1);
  const std::vector<std::string> sources = {source_of("a")};
  EXPECT_THAT(compiler.compile(sources)[0],
              StartsWith("ptx\n-std=c++17\n--gpu-architecture=compute_100\n"));
  NvrtcCompiler known(open_nvrtc(both(), 100), 100, {}, 1);
  EXPECT_THAT(known.compile(sources)[0],
              StartsWith("cubin\n-std=c++17\n--gpu-architecture=sm_100\n"));
}

TEST(Nvrtc, TheLogNamesTheKernel) {
  NvrtcCompiler compiler(open_nvrtc(both(), 90), 90, {}, 2);
  const std::vector<std::string> sources = {source_of("good"), "#error\n" + source_of("conv_3x3")};
  const Error error = error_of([&] { compiler.compile(sources); });
  EXPECT_EQ(error.code, ErrorCode::kInternal);
  EXPECT_THAT(error.message, AllOf(HasSubstr("compiling conv_3x3.cu for sm_90a"),
                                   HasSubstr("conv_3x3.cu(1): error: #error directive")));
}

TEST(Nvrtc, SourceNames) {
  EXPECT_EQ(source_name(source_of("pool_2")), "pool_2.cu");
  EXPECT_EQ(source_name("extern \"C\" __global__ void __launch_bounds__(128)\n"
                        "conv(const __grid_constant__ Parameters p)"),
            "conv.cu");
  EXPECT_EQ(source_name("nothing"), "kernel.cu");
}

TEST(Nvrtc, IdentityCoversAllButTheSource) {
  const auto identity = [](const char* text, int sm, const char* folder) {
    return NvrtcCompiler(open_nvrtc(only(fakes(folder)), sm), sm, {{"braze/a.cuh", text}}, 1)
        .identity();
  };
  const std::string one = identity("//a", 90, "cuda13");
  EXPECT_EQ(identity("//a", 90, "cuda13"), one);
  EXPECT_NE(identity("//b", 90, "cuda13"), one);
  EXPECT_NE(identity("//a", 89, "cuda13"), one);
  EXPECT_NE(identity("//a", 90, "cuda12"), one);
}

/// The real one of this machine, or null.
std::shared_ptr<const Nvrtc> real_nvrtc(int sm) {
  try {
    SearchPath search = SearchPath::of_process();
    search.loaded.clear();  // the fakes of other tests
    return open_nvrtc(search, sm);
  } catch (const Exception&) {
    return nullptr;
  }
}

TEST(RealNvrtc, CompilesDeviceHeadersForEveryArchitecture) {
  if (real_nvrtc(0) == nullptr) GTEST_SKIP() << "there is no NVRTC here";
  std::string source;
  for (const DeviceHeader& header : device_headers())
    if (std::string(header.name) == "braze/types.cuh") source = "#include \"braze/types.cuh\"\n";
  source += source_of("nothing");
  const std::vector<std::string> sources = {source};
  int compiled = 0;
  for (const int sm : {70, 75, 80, 86, 89, 90}) {
    const auto nvrtc = real_nvrtc(sm);
    if (nvrtc == nullptr) continue;  // 70 needs an NVRTC 12
    NvrtcCompiler compiler(nvrtc, sm, device_headers());
    EXPECT_THAT(compiler.compile(sources)[0], StartsWith("\x7f"
                                                         "ELF"))
        << sm;
    ++compiled;
  }
  EXPECT_GE(compiled, 5);
}

TEST(RealNvrtc, ErrorsComeWithTheLog) {
  const auto nvrtc = real_nvrtc(80);
  if (nvrtc == nullptr) GTEST_SKIP() << "there is no NVRTC here";
  NvrtcCompiler compiler(nvrtc, 80, {}, 1);
  const std::vector<std::string> sources = {"int broken = undefined_name;\n" + source_of("conv")};
  EXPECT_THAT(error_of([&] { compiler.compile(sources); }).message,
              AllOf(HasSubstr("conv.cu(1): error"), HasSubstr("undefined_name")));
}

TEST(RealNvrtc, NewerGpusGetPtx) {
  const auto nvrtc = real_nvrtc(999);
  if (nvrtc == nullptr) GTEST_SKIP() << "there is no NVRTC here";
  NvrtcCompiler compiler(nvrtc, 999, {}, 1);
  const std::vector<std::string> sources = {source_of("conv")};
  EXPECT_THAT(compiler.compile(sources)[0],
              AllOf(HasSubstr(".target sm_"), HasSubstr(".entry conv"), Not(HasSubstr("ELF"))));
}

}  // namespace
}  // namespace braze::cuda
