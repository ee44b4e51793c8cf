// Tensors in a GPU's own memory, handed over in the caller's stream: what run() gives, bit for bit.
#include <cstring>

#include "exec/cuda/driver_gpu.hpp"
#include "gpu/on_gpu.hpp"

namespace braze::test {
namespace {

TEST(TensorsOnGpu, GiveTheSameBitsAsTensorsOfTheHost) {
  BRAZE_NEEDS_GPU();
  Net net(5);
  const ValueId x = net.conv("c1", net.input("x", {2, 8, 20, 20}), 16, window2d(3, 1));
  net.output(net.conv("c2", net.unary("r", UnaryFn::kRelu, x), 8, window2d(3, 1)));
  const Model model = compile_on("cuda", net, Precision::kFp32);
  ASSERT_EQ(model.gpu(), 0);
  cuda::DriverGpu gpu(cuda::SearchPath::of_process(), 0);

  std::vector<cuda::Memory> memory;
  std::vector<std::vector<Tensor>> inputs(12), outputs(12), want(12);  // more than are remembered
  for (std::size_t caller = 0; caller < inputs.size(); ++caller) {
    const std::vector<Tensor> host = random_inputs(model, caller);
    want[caller] = run(model, host);
    const auto pinned = gpu.allocate_host(host[0].bytes());
    std::memcpy(pinned.get(), host[0].data(), host[0].bytes());
    memory.push_back(gpu.allocate(host[0].bytes(), "a caller's input"));
    gpu.copy_in(memory.back().get(), pinned.get(), host[0].bytes());
    gpu.wait();
    inputs[caller].push_back(Tensor::view(host[0].dtype(), host[0].shape(), memory.back().get()));
    Result<std::vector<Tensor>> made = model.make_gpu_outputs();
    ASSERT_TRUE(made.ok()) << made.error().message;
    outputs[caller] = std::move(made).value();
  }
  const auto check = [&](std::size_t caller) {
    const Status status = model.run_on_gpu(inputs[caller], outputs[caller], nullptr);
    ASSERT_TRUE(status.ok()) << status.error().message;
    std::vector<Tensor> host = {Tensor::make(DType::kFloat32, want[caller][0].shape())};
    const Status copied = model.copy_from_gpu(outputs[caller], host, nullptr);
    ASSERT_TRUE(copied.ok()) << copied.error().message;
    ASSERT_EQ(std::memcmp(host[0].data(), want[caller][0].data(), host[0].bytes()), 0)
        << "caller " << caller;
  };
  for (int round = 0; round < 3; ++round) {
    for (std::size_t caller = 0; caller < inputs.size(); ++caller) check(caller);  // all copied
  }
  for (int round = 0; round < 5; ++round) {
    for (std::size_t caller = 0; caller < 3; ++caller) check(caller);  // in place
  }
}

}  // namespace
}  // namespace braze::test
