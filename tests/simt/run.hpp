// Runs small kernels that tests write inline.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "support/simt/emulated_gpu.hpp"

namespace braze::test {

/// Words of every kernel here: Parameters has `in` and `out`, and T is the element type.
inline std::string kernel_source(const std::string& body, const std::string& before = "") {
  return R"(#include "braze/types.cuh"
using namespace braze::device;
struct Parameters {
  const void* in;
  void* out;
};
)" + before +
         R"(
extern "C" __global__ void __launch_bounds__(1024) test_kernel(const __grid_constant__ Parameters p) {
  [[maybe_unused]] const float* const in = static_cast<const float*>(p.in);
  [[maybe_unused]] float* const out = static_cast<float*>(p.out);
  [[maybe_unused]] const int thread = threadIdx.x;
)" + body +
         "}\n";
}

struct Shape {
  cuda::Dim3 grid, block;
  std::uint32_t shared_bytes = 0;
  int orders = 1;
};

inline cuda::Kernel make_kernel(std::string source, const Shape& shape) {
  struct Block {
    const void* in = nullptr;
    void* out = nullptr;
  } block;
  cuda::Kernel kernel;
  kernel.source = std::move(source);
  kernel.entry = "test_kernel";
  kernel.grid = shape.grid;
  kernel.block = shape.block;
  kernel.shared_bytes = shape.shared_bytes;
  cuda::Parameters parameters(block);
  parameters.point(block.in, {cuda::Address::Of::kInput, 0, 0});
  parameters.point(block.out, {cuda::Address::Of::kOutput, 0, 0});
  parameters.move_to(kernel);
  return kernel;
}

/// The outputs of each order.
template <class Out, class In>
std::vector<std::vector<Out>> run_kernels(const std::string& source, const Shape& shape,
                                          const std::vector<In>& in, std::size_t out_count) {
  std::vector<std::vector<std::byte>> inputs(1, std::vector<std::byte>(in.size() * sizeof(In)));
  if (!in.empty()) std::memcpy(inputs[0].data(), in.data(), inputs[0].size());
  const std::vector<std::size_t> output_bytes{out_count * sizeof(Out)};
  std::vector<std::vector<Out>> results;
  for (const auto& run :
       run_kernel(make_kernel(source, shape), inputs, output_bytes, 90, shape.orders)) {
    auto& result = results.emplace_back(out_count);
    std::memcpy(result.data(), run[0].data(), run[0].size());
  }
  return results;
}

/// The message of the error that running the kernel gives; "" if it gives none.
inline std::string error_of(const std::string& body, const Shape& shape, std::size_t out_bytes = 4,
                            const std::string& before = "") {
  try {
    run_kernels<std::byte>(kernel_source(body, before), shape, std::vector<float>(64), out_bytes);
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kDevice) << exception.error().message;
    return exception.error().message;
  }
  return {};
}

}  // namespace braze::test
