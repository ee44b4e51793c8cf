// The sources that families emit, as files to be read and reviewed: tests/golden/*.cu. After a
// change that is meant, write them anew:
//   build/dev/bin/kernels_cuda_tests --gtest_also_run_disabled_tests --gtest_filter='Golden.*Write'
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels_cuda/chain_check.hpp"
#include "kernels_cuda/conv_cases.hpp"
#include "kernels_cuda/representatives.hpp"
#include "passes/lower_precision.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"

namespace braze::cuda::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(BRAZE_TESTS_DIR) / "golden";

/// The kernel of the candidate that a plan would choose by its efficiency.
Kernel conv_kernel(const Row& row, int sm, const ConvCase& c, bool tf32 = false) {
  Device device = cuda_device(sm);
  device.tf32 = tf32;
  const Twin twin = conv_twin(c);
  const Candidate* best = nullptr;
  double most = 0;
  const std::vector<Candidate> candidates =
      row.family.candidates != nullptr ? row.family.candidates(twin.graph, twin.group, device)
                                       : std::vector<Candidate>{Candidate{}};
  for (const Candidate& candidate : candidates) {
    const double efficiency = row.family.work(twin.graph, twin.group, candidate, device).efficiency;
    if (best == nullptr || efficiency > most) best = &candidate, most = efficiency;
  }
  const Plan plan = twin.plan(row, device, *best);
  return row.build(plan, plan.kernels[0]);
}

Kernel gemm_kernel(int sm) {
  const Row row = gemm_cuda();
  OneNode node(
      MatMul{},
      {random_floats(DType::kFloat16, {64, 128}, 1), random_floats(DType::kFloat16, {128, 256}, 2)},
      {1});
  node.then(Unary{UnaryFn::kRelu});
  Plan plan = one_kernel_plan(node.graph, row, node.group, {}, sm);
  plan.kernels[0].candidate = row.family.candidates(node.graph, node.group, plan.device).front();
  return row.build(plan, plan.kernels[0]);
}

struct ChainPart {
  std::int64_t outputs, kernel, stride = 1, groups = 1;
};

/// The chain that a plan makes of convolutions, each with a relu; the last adds the input where
/// that is as large. `stores`: the first one's result is an output, too.
Kernel chain_kernel(const Shape& shape, const std::vector<ChainPart>& parts, bool residual = false,
                    DType dtype = DType::kFloat16, bool stores = false) {
  test::Net net;
  const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", shape));
  ValueId at = x;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string id = std::to_string(i);
    at = net.conv("conv" + id, at, parts[i].outputs,
                  test::window2d(parts[i].kernel, parts[i].kernel / 2, parts[i].stride),
                  parts[i].groups);
    if (residual && i + 1 == parts.size()) at = net.add("add" + id, at, x);
    at = net.unary("relu" + id, UnaryFn::kRelu, at);
    if (stores && i == 0) net.output(at);
  }
  net.output(at);
  lower_precision(net.graph, dtype, true);
  Registry registry = cuda::registry();
  for (KernelFamily& family : registry) {
    if (family.name != "chain_sm90") family.joins = nullptr;
  }
  Device device = cuda_device(90);
  device.launch_us = 100;  // joins what it can, whether that pays or not
  const Plan plan = make_plan(net.graph, device, {FusionLevel::kFull, false}, registry);
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.family == "chain_sm90") return cuda::builder(kernel.family)(plan, kernel);
  }
  throw std::runtime_error("no chain in " + print(plan));
}

/// A block whose shortcut is a convolution, too.
Kernel sum_kernel() {
  ExactNet net;
  const ValueId a = net.image("a", {32, 128, 28, 28}), b = net.image("b", {32, 256, 56, 56});
  const ValueId main = net.conv("main", a, 512, test::window2d(1));
  const ValueId shortcut = net.conv("shortcut", b, 512, test::window2d(1, 0, 2));
  net.output(net.unary("relu", UnaryFn::kRelu, net.add("sum", main, shortcut)));
  lower_precision(net.graph, DType::kFloat16, true);
  const Plan plan =
      make_plan(net.graph, cuda_device(90), {FusionLevel::kFull, false}, cuda::registry());
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.family == "conv_sum_sm90") return cuda::builder(kernel.family)(plan, kernel);
  }
  throw std::runtime_error("no sum in " + print(plan));
}

/// A step up of a U-Net, with a relu.
Kernel transposed_kernel() {
  ExactNet net;
  const ValueId x = net.image("x", {1, 256, 64, 64});
  const ValueId up =
      net.unary("relu", UnaryFn::kRelu, net.conv_transpose("up", x, 128, test::window2d(2, 0, 2)));
  net.output(net.conv("next", up, 128, test::window2d(3, 1)));
  lower_precision(net.graph, DType::kFloat16, true);
  const Plan plan =
      make_plan(net.graph, cuda_device(90), {FusionLevel::kFull, false}, cuda::registry());
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.nodes.front() == "up") return cuda::builder(kernel.family)(plan, kernel);
  }
  throw std::runtime_error("nothing runs 'up' in " + print(plan));
}

/// Two convolutions, or an inverted residual.
Kernel chain_kernel(int sm, bool inverted) {
  ExactNet net;
  const ValueId x = net.image("x", {8, 24, 56, 56});
  if (inverted) {
    const ValueId e = net.clip("e6", net.conv("a", x, 144, test::window2d(1)), 0, 6);
    const ValueId d = net.clip("d6", net.conv("d", e, 144, test::window2d(3, 1), 144), 0, 6);
    net.output(net.add("y", x, net.conv("b", d, 24, test::window2d(1))));
  } else {
    const ValueId a = net.unary("ra", UnaryFn::kRelu, net.conv("a", x, 64, test::window2d(3, 1)));
    net.output(net.unary("rb", UnaryFn::kRelu, net.conv("b", a, 64, test::window2d(1))));
  }
  const Row row = chain_row({.sm = sm});
  Plan plan = plan_of_parts(net.graph, DType::kFloat16, sm);
  const Group group = chain_group(plan, "a", "b");
  plan.kernels.resize(1);
  plan.kernels[0].group = group;
  plan.kernels[0].family = row.family.name;
  plan.kernels[0].candidate = row.family.candidates(plan.graph, group, plan.device).front();
  return row.build(plan, plan.kernels[0]);
}

/// Name of the file and what it holds. Representatives are those of
/// kernels_cuda/representatives.hpp.
std::vector<std::pair<std::string, std::string>> golden() {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&](const std::string& name, const Kernel& kernel) {
    all.emplace_back(name, kernel.source);
  };
  ConvCase c;
  c.x = {1, 64, 56, 56};
  c.outputs = 64;
  c.after = 1;
  add("conv_sm90_relu", conv_kernel(conv_sm90(), 90, c));
  add("conv_sm80_relu", conv_kernel(conv_sm80(), 80, c));
  add("conv_portable_relu", conv_kernel(conv_portable(), 75, c));
  c.after = 2;
  add("conv_sm90_residual_relu", conv_kernel(conv_sm90(), 90, c));
  ConvCase deep = c;
  deep.x = {1, 256, 14, 14};
  deep.outputs = 256;
  add("conv_patch_sm90_residual_relu", conv_kernel(conv_sm90(), 90, deep));
  deep.x[0] = 64;
  add("conv_sm90_many_images_residual_relu", conv_kernel(conv_sm90(), 90, deep));
  add("conv_sum_sm90_relu", sum_kernel());
  add("conv_sm90_transposed_relu", transposed_kernel());
  c.after = 7;
  add("conv_sm80_hard_swish_max", conv_kernel(conv_sm80(), 80, c));
  c.compute = c.x_stored = c.y_stored = DType::kFloat32;
  c.after = 4;
  add("conv_simt_clip_gate", conv_kernel(conv_simt(), 80, c));
  add("conv_sm90_tf32_clip_gate", conv_kernel(conv_sm90(), 90, c, true));
  add("gemm_sm80_relu", gemm_kernel(80));
  add("conv_chain_sm80_relu", chain_kernel(80, false));
  add("conv_chain_sm80_inverted_residual", chain_kernel(80, true));
  add("conv_chain_portable_inverted_residual", chain_kernel(75, true));
  ConvCase first;
  first.x = {1, 3, 64, 64};
  first.outputs = 64;
  first.kernel = {7, 7}, first.strides = {2, 2}, first.begin = first.end = {3, 3};
  first.after = 1;
  add("conv_stem_relu", conv_kernel(conv_stem(), 90, first));
  ConvCase gate;
  gate.x = {1, 96, 1, 1};
  gate.outputs = 1152;
  gate.kernel = {1, 1}, gate.begin = gate.end = {0, 0};
  gate.after = 8;
  add("matrix_vector_silu", conv_kernel(matrix_vector(), 90, gate));
  const Shape image = {32, 64, 56, 56};
  add("chain_sm90_3x3_1x1", chain_kernel(image, {{64, 3}, {64, 1}}));
  add("chain_sm90_3x3_1x1_wide", chain_kernel(image, {{64, 3}, {256, 1}}));
  add("chain_sm90_3x3_3x3_bfloat16",
      chain_kernel(image, {{64, 3}, {64, 3}}, false, DType::kBFloat16));
  add("chain_sm90_3x3_3x3_residual", chain_kernel({1, 64, 56, 56}, {{64, 3}, {64, 3}}, true));
  add("chain_sm90_bottleneck_residual",
      chain_kernel({8, 256, 56, 56}, {{64, 1}, {64, 3}, {256, 1}}, true));
  add("chain_sm90_strides_few_channels", chain_kernel({8, 16, 128, 128}, {{24, 3, 2}, {30, 1}}));
  add("chain_sm90_3x3_1x1_stored",
      chain_kernel(image, {{64, 3}, {64, 1}}, false, DType::kFloat16, true));
  add("chain_sm90_inverted_residual",
      chain_kernel({8, 32, 28, 28}, {{192, 1}, {192, 3, 1, 192}, {32, 1}}, true));
  for (const Representative& one : representatives(90)) {
    for (const char* name :
         {"chain_float", "max_pool_float16", "mean_float16", "softmax_float", "linear_float16",
          "transposed_float16", "depthwise3_s1_n1_float16", "relayout_float", "concat"}) {
      if (one.name == name) add(one.name, one.kernel);
    }
  }
  return all;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> written() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (entry.path().extension() == ".cu") files.push_back(entry.path());
  return files;
}

TEST(Golden, EmittedSourcesAreThoseThatWereReviewed) {
  std::set<fs::path> files;
  for (const auto& [name, source] : golden()) {
    const fs::path file = kFolder / (name + ".cu");
    files.insert(file);
    EXPECT_EQ(source, text_of(file))
        << file << " differs. If that is meant, run\n  kernels_cuda_tests "
        << "--gtest_also_run_disabled_tests --gtest_filter='Golden.*Write'";
  }
  EXPECT_GE(files.size(), 12U);
  for (const fs::path& file : written())
    EXPECT_TRUE(files.contains(file)) << file << " is no kernel's any more";
}

TEST(Golden, DISABLED_Write) {
  const auto sources = golden();  // first: where one cannot be made, all stay
  for (const fs::path& file : written()) fs::remove(file);
  for (const auto& [name, source] : sources)
    std::ofstream(kFolder / (name + ".cu"), std::ios::binary) << source;
}

}  // namespace
}  // namespace braze::cuda::testing
