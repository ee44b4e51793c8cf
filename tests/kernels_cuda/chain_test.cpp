// Chains of convolutions as one kernel, on the emulated GPU, against the interpreter.
#include "kernels_cuda/chain_check.hpp"
#include "kernels_cuda/nvrtc_for.hpp"
#include "kernels_cuda/random_chain.hpp"

namespace braze::cuda::testing {
namespace {

using test::window2d;

Window window(Ints kernel, Ints strides, Ints dilations, Ints begin, Ints end) {
  return {std::move(kernel), std::move(strides), std::move(dilations),
          std::move(begin),  std::move(end),     AutoPad::kNotSet};
}

TEST(CudaChain, TwoConvolutions) {
  BRAZE_NEEDS_EMULATOR();
  for (const int sm : {80, 75}) {
    ExactNet net;
    const ValueId x = net.image("x", {1, 24, 12, 11});
    const ValueId a = net.unary("ra", UnaryFn::kRelu, net.conv("a", x, 40, window2d(3, 1)));
    net.output(net.unary("rb", UnaryFn::kRelu, net.conv("b", a, 32, window2d(3, 1))));
    check_chain(net, "a", "b", {.sm = sm});
    if (HasFatalFailure()) return;
  }
}

TEST(CudaChain, AnInvertedResidual) {
  BRAZE_NEEDS_EMULATOR();
  for (const int sm : {80, 75}) {
    ExactNet net;
    const ValueId x = net.image("x", {2, 16, 9, 10});
    const ValueId e = net.clip("e6", net.conv("e", x, 96, window2d(1)), 0, 6);
    const ValueId d = net.clip("d6", net.conv("d", e, 96, window2d(3, 1), 96), 0, 6);
    net.output(net.add("y", x, net.conv("p", d, 16, window2d(1))));
    check_chain(net, "e", "p", {.sm = sm, .most = 6});
    if (HasFatalFailure()) return;
  }
}

TEST(CudaChain, WindowsOfEveryKind) {
  BRAZE_NEEDS_EMULATOR();
  for (const int sm : {80, 70}) {
    ExactNet net(2);
    const ValueId x = net.image("x", {1, 13, 17, 14});
    const ValueId a = net.conv("a", x, 20, window({3, 5}, {2, 1}, {1, 2}, {1, 3}, {0, 4}));
    const ValueId b =
        net.clip("rb", net.conv("b", a, 30, window({2, 3}, {1, 2}, {2, 1}, {2, 0}, {1, 3})), -9, 9);
    net.output(net.conv("c", b, 7, window2d(1)));
    check_chain(net, "a", "c", {.sm = sm});
    if (HasFatalFailure()) return;
  }
}

TEST(CudaChain, OtherTypes) {
  BRAZE_NEEDS_EMULATOR();
  for (const ChainCase& of : std::vector<ChainCase>{{.dtype = DType::kBFloat16, .most = 2},
                                                    {.dtype = DType::kBFloat16, .sm = 75},
                                                    {.dtype = DType::kFloat32, .sm = 80},
                                                    {.dtype = DType::kFloat32, .tf32 = true}}) {
    ExactNet net(3);
    const ValueId x = net.image("x", {1, 11, 9, 9});
    const ValueId a = net.unary("ra", UnaryFn::kRelu, net.conv("a", x, 18, window2d(3, 1)));
    const ValueId d = net.clip("rd", net.conv("d", a, 18, window2d(3, 1, 2), 18), -4, 6);
    net.output(net.conv("b", d, 33, window2d(1)));
    check_chain(net, "a", "b", of);
    if (HasFatalFailure()) return;
  }
}

TEST(CudaChain, PoolsAndSumsInside) {
  BRAZE_NEEDS_EMULATOR();
  for (const int sm : {80, 75}) {
    ExactNet net(4);
    const ValueId x = net.image("x", {1, 16, 12, 13});
    const ValueId a = net.unary("ra", UnaryFn::kRelu, net.conv("a", x, 16, window2d(3, 1)));
    const ValueId sum = net.add("sum", a, net.conv("b", a, 16, window2d(3, 1)));
    Pool pool;
    pool.fn = PoolFn::kMax;
    pool.window = window2d(3, 1, 2);
    const ValueId pooled = net.op("pool", pool, {net.clip("c6", sum, -6, 6)});
    pool.fn = PoolFn::kAverage;
    pool.window = window({2, 2}, {1, 1}, {1, 1}, {0, 1}, {1, 0});
    pool.count_include_pad = true;
    const ValueId mean = net.op("mean", pool, {pooled});
    net.output(net.conv("c", mean, 24, window2d(1)));
    check_chain(net, "a", "c", {.sm = sm});
    if (HasFatalFailure()) return;
  }
}

TEST(CudaChain, WhatIsReadElsewhereIsStoredToo) {
  BRAZE_NEEDS_EMULATOR();
  ExactNet net(5);
  const ValueId x = net.image("x", {2, 8, 10, 9});
  const ValueId a = net.unary("ra", UnaryFn::kRelu, net.conv("a", x, 72, window2d(1)));
  const ValueId b = net.conv("b", a, 16, window2d(3, 1));
  net.output(a);
  net.output(b);
  check_chain(net, "a", "b", {.most = 6});
}

TEST(CudaChain, OperandsInMemory) {
  BRAZE_NEEDS_EMULATOR();
  ExactNet net(6);
  const ValueId z = net.image("z", {1, 24, 8, 8});
  const ValueId gate = net.image("gate", {1, 24, 1, 1});
  const ValueId x = net.image("x", {1, 100, 8, 8});
  const ValueId a = net.mul("ga", net.conv("a", x, 24, window2d(1)), gate);
  const ValueId b = net.add("zb", z, net.conv("b", a, 24, window2d(3, 1)));
  net.output(net.sub("xc", net.conv("c", b, 100, window2d(1)), x));
  check_chain(net, "a", "c", {.most = 12});
}

TEST(CudaChain, KeepsNaN) {
  BRAZE_NEEDS_EMULATOR();
  for (const int sm : {80, 75}) {
    ExactNet net(7);
    const ValueId x = net.image("x", {1, 8, 6, 6});
    const ValueId n = net.unary("n", UnaryFn::kLog, x);  // of negative numbers
    const ValueId a = net.unary("ra", UnaryFn::kRelu, net.conv("a", n, 8, window2d(1)));
    net.output(net.unary("rb", UnaryFn::kRelu, net.conv("b", a, 8, window2d(3, 1))));
    check_chain(net, "a", "b", {.sm = sm, .most = 1}, within(1e-3, 4e-3));
    if (HasFatalFailure()) return;
  }
}

TEST(CudaChain, NoImages) {
  BRAZE_NEEDS_EMULATOR();
  ExactNet net(8);
  const ValueId x = net.image("x", {0, 8, 6, 6});
  net.output(net.conv("b", net.conv("a", x, 8, window2d(1)), 8, window2d(1)));
  check_chain(net, "a", "b", {});
}

TEST(CudaChain, RandomChains) {
  BRAZE_NEEDS_EMULATOR();
  for (unsigned seed = 1; seed <= 24; ++seed) {
    ChainCase of{.most = 1, .seed = seed};
    if (seed % 3 == 0) of.sm = 75;
    if (seed % 8 == 4) of.dtype = DType::kBFloat16;
    if (seed % 12 == 7) of.dtype = DType::kFloat32;
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomChain chain(seed, of.dtype);
    check_chain(chain.net, chain.first, chain.last, of);
    if (HasFatalFailure()) return;
  }
}

/// 3x3 -> 1x1, or an inverted residual.
ExactNet block(bool inverted) {
  ExactNet net;
  const ValueId x = net.image("x", {8, 24, 56, 56});
  if (inverted) {
    const ValueId e = net.clip("e6", net.conv("a", x, 144, window2d(1)), 0, 6);
    const ValueId d = net.clip("d6", net.conv("d", e, 144, window2d(3, 1), 144), 0, 6);
    net.output(net.add("y", x, net.conv("b", d, 24, window2d(1))));
  } else {
    const ValueId a = net.unary("ra", UnaryFn::kRelu, net.conv("a", x, 64, window2d(3, 1)));
    net.output(net.unary("rb", UnaryFn::kRelu, net.conv("b", a, 64, window2d(1))));
  }
  return net;
}

TEST(CudaChain, CompilesForEveryArchitecture) {
  for (const int sm : {70, 75, 80, 86, 89, 90}) {
    std::string why;
    const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(sm, why);
    if (nvrtc == nullptr) continue;  // compile_test.cpp says so
    std::set<std::string> sources;
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
      if (dtype != DType::kFloat16 && sm != 70 && sm != 80) continue;
      const ChainCase of{.dtype = dtype, .sm = sm};
      Plan plan = plan_of_parts(block(dtype == DType::kFloat16).graph, dtype, sm);
      const Group group = chain_group(plan, "a", "b");
      const Row row = chain_row(of);
      plan.kernels.resize(1);
      plan.kernels[0].group = group;
      plan.kernels[0].family = row.family.name;
      plan.kernels[0].candidate = row.family.candidates(plan.graph, group, plan.device).front();
      sources.insert(row.build(plan, plan.kernels[0]).source);
    }
    const std::vector<std::string> list(sources.begin(), sources.end());
    NvrtcCompiler compiler(nvrtc, sm, device_headers());
    EXPECT_EQ(compiler.compile(list).size(), list.size());
  }
}

}  // namespace
}  // namespace braze::cuda::testing
