// A kernel that breaks the device's context: what the error says. In a process of its own, since
// nothing runs on the GPU after it.
#include <cstdio>

#include "exec/cuda/driver_gpu.hpp"
#include "exec/cuda/nvrtc.hpp"
#include "gpu/on_gpu.hpp"

namespace braze::test {
namespace {

/// Exits with 0 if a trap in the second of two steps gives an error that holds `text`.
[[noreturn]] void trap(bool timed, const char* text) {
  const cuda::SearchPath search = cuda::SearchPath::of_process();
  cuda::DriverGpu gpu(search, 0);
  cuda::NvrtcCompiler compiler(cuda::open_nvrtc(search, gpu.sm(), gpu.driver().version), gpu.sm(),
                               cuda::device_headers());
  const std::vector<std::string> sources = {
      "struct P { int trap; };\nextern \"C\" __global__ void work(const __grid_constant__ P p) {\n"
      "  if (p.trap) asm volatile(\"trap;\");\n}\n"};
  const auto module = gpu.load(compiler.compile(sources)[0], "work");
  cuda::Kernel kernel;
  kernel.entry = "work";
  std::vector<cuda::Step> steps(2);
  for (int i = 0; i < 2; ++i) {
    cuda::Step& step = steps[static_cast<std::size_t>(i)];
    step.launch = {&kernel, module, std::vector<std::byte>(4)};
    step.launch.parameters[0] = static_cast<std::byte>(i);
    step.name = i == 0 ? "k0_good (a)" : "k1_bad (b, c)";
  }
  const auto recording = gpu.record(std::move(steps));
  try {
    std::vector<double> seconds(2);
    if (timed) {
      recording->run_timed(seconds);
    } else {
      recording->run();
      gpu.wait();
    }
  } catch (const Exception& exception) {
    std::fprintf(stderr, "%s\n", exception.what());
    const bool right = exit_code(exception.error().code) == 4 &&
                       std::string(exception.what()).find(text) != std::string::npos;
    std::_Exit(right ? 0 : 1);
  }
  std::_Exit(2);
}

TEST(LostGpuDeathTest, ErrorsNameTheStepWhereStepsAreTimed) {
  BRAZE_NEEDS_GPU();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(trap(true, "while running k1_bad (b, c)"), ::testing::ExitedWithCode(0), "was lost");
  EXPECT_EXIT(trap(false, "while running kernels"), ::testing::ExitedWithCode(0), "was lost");
}

}  // namespace
}  // namespace braze::test
