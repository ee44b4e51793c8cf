// Offsets past 2^31 elements: images with so wide gaps between their pixels that they have more
// than that, in memory of the emulated GPU of which only what is touched exists.
#include "kernels_cuda/conv_cases.hpp"
#include "kernels_cuda/one_kernel.hpp"
#include "plan/stages.hpp"

namespace braze::cuda::testing {
namespace {

/// Elements between pixels: 12 pixels span 11 * 2^28 > 2^31 elements.
constexpr std::int64_t kPitch = std::int64_t{1} << 28;
const Shape kImage = {2, 16, 2, 3};

/// Elements of a tensor in logical order, where they are placed.
std::vector<std::int64_t> offsets_of(const Shape& shape, const Placement& placement) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(element_count(shape)));
  const bool last = placement.layout == Layout::kChannelsLast;
  const std::int64_t pixels =
      last ? element_count({shape.begin() + 2, shape.end()}) : std::int64_t{1};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t pixel = at % pixels, channel = last ? at / pixels % shape[1] : 0;
    offsets[i] = last ? (at / pixels / shape[1] * pixels + pixel) * placement.pitch + channel : at;
  }
  return offsets;
}

/// Images far apart where `inputs` and `outputs` say so, else dense and channels-last.
Plan far_apart(const Graph& graph, const Row& row, const Group& group, int sm, bool inputs,
               bool outputs) {
  std::map<ValueId, LayoutChoice> layouts;
  for (const auto* ids : {&group.inputs, &group.outputs}) {
    for (const ValueId id : *ids)
      if (graph.value(id).shape.size() >= 3) layouts[id] = {Layout::kChannelsLast, 0};
  }
  KernelFamily family = row.family;
  family.candidates = nullptr;
  Plan plan = one_kernel_plan(graph, {family, nullptr}, group, layouts, sm);
  if (row.family.candidates != nullptr) {
    const auto candidates = row.family.candidates(graph, group, plan.device);
    if (!candidates.empty()) plan.kernels[0].candidate = candidates.front();
  }
  const auto spread = [&](const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) {
      const Value& value = graph.value(id);
      if (value.shape.size() < 3 || value.is_constant()) continue;
      Placement& placement = plan.placements[static_cast<std::size_t>(id)];
      placement.pitch = kPitch;
      placement.bytes = extent_bytes(value, Layout::kChannelsLast, kPitch);
    }
  };
  if (inputs) spread(group.inputs);
  if (outputs) spread(group.outputs);
  return plan;
}

std::vector<Tensor> run_far_apart(const Plan& plan, const Row& row,
                                  std::span<const Tensor> inputs) {
  const KernelPlan& planned = plan.kernels.front();
  const Kernel kernel = row.build(plan, planned);
  test::EmulatedCompiler compiler(plan.device.sm);
  test::EmulatedGpu gpu(plan.device.sm);
  std::vector<Memory> in, out, constants;
  const auto placement = [&](ValueId id) -> const Placement& {
    return plan.placements[static_cast<std::size_t>(id)];
  };
  for (std::size_t i = 0; i < planned.group.inputs.size(); ++i) {
    const ValueId id = planned.group.inputs[i];
    const Value& value = plan.graph.value(id);
    in.push_back(gpu.allocate(static_cast<std::size_t>(placement(id).bytes), "an input"));
    const std::size_t size = size_of(value.dtype);
    const auto offsets = offsets_of(value.shape, placement(id));
    for (std::size_t e = 0; e < offsets.size(); ++e)
      std::memcpy(in.back().get() + offsets[e] * static_cast<std::int64_t>(size),
                  inputs[i].as<std::byte>() + e * size, size);
  }
  for (const ValueId id : planned.group.outputs)
    out.push_back(gpu.allocate(static_cast<std::size_t>(placement(id).bytes), "an output"));
  for (const std::vector<std::byte>& bytes : kernel.constants) {
    constants.push_back(gpu.allocate(bytes.size(), "a constant"));
    gpu.copy_in(constants.back().get(), bytes.data(), bytes.size());
  }
  const Memory workspace = gpu.allocate(kernel.workspace_bytes, "the workspace");
  const auto locate = [&](const Address& address) -> std::byte* {
    const auto i = static_cast<std::size_t>(address.index);
    switch (address.of) {
      case Address::Of::kInput:
        return in.at(i).get() + address.offset;
      case Address::Of::kOutput:
        return out.at(i).get() + address.offset;
      case Address::Of::kConstant:
        return constants.at(i).get() + address.offset;
      case Address::Of::kWorkspace:
        return workspace.get() + address.offset;
      case Address::Of::kNull:
        break;
    }
    return nullptr;
  };
  std::vector<Step> steps(1);
  Launch& launch = steps[0].launch;
  launch.kernel = &kernel;
  launch.module = gpu.load(compiler.compile(std::span(&kernel.source, 1)).front(), kernel.entry);
  launch.parameters = kernel.parameters;
  for (const Pointer& pointer : kernel.pointers) {
    std::byte* const value = locate(pointer.address);
    std::memcpy(launch.parameters.data() + pointer.at, static_cast<const void*>(&value),
                sizeof value);
  }
  for (const TensorMap& map : kernel.maps) {
    const auto bytes = gpu.encode(map, locate(map.address));
    std::memcpy(launch.parameters.data() + map.at, bytes.data(), bytes.size());
  }
  gpu.record(std::move(steps))->run();
  gpu.wait();
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const ValueId id = planned.group.outputs[i];
    const Value& value = plan.graph.value(id);
    Tensor result = Tensor::make(value.dtype, value.shape);
    const std::size_t size = size_of(value.dtype);
    const auto offsets = offsets_of(value.shape, placement(id));
    for (std::size_t e = 0; e < offsets.size(); ++e)
      std::memcpy(result.as<std::byte>() + e * size,
                  out[i].get() + offsets[e] * static_cast<std::int64_t>(size), size);
    results.push_back(std::move(result));
  }
  return results;
}

/// With the inputs far apart, then the outputs.
void check(const char* what, const Row& row, const OneNode& node, int sm, const Compare& compare) {
  SCOPED_TRACE(::testing::Message() << what << " on sm_" << sm);
  const std::vector<Tensor> want = interpret(node.graph, node.inputs);
  for (const bool inputs : {true, false}) {
    const Plan plan = far_apart(node.graph, row, node.group, sm, inputs, !inputs);
    const std::vector<Tensor> got = run_far_apart(plan, row, node.inputs);
    for (std::size_t i = 0; i < want.size(); ++i) compare(got[i], want[i]);
  }
}

Window window(std::int64_t size, std::int64_t pad) {
  return {{size, size}, {1, 1}, {1, 1}, {pad, pad}, {pad, pad}, AutoPad::kNotSet};
}

Tensor halves(const Shape& shape, unsigned seed) {
  return random_floats(DType::kFloat16, shape, seed);
}

TEST(LargeOffsets, Convolutions) {
  BRAZE_NEEDS_EMULATOR();
  for (const std::int64_t size : {1, 3}) {
    const auto conv = [&](DType dtype, std::int64_t group) {
      Conv op;
      op.window = window(size, size / 2);
      op.group = group;
      OneNode node(
          op,
          {random_floats(dtype, kImage, 1), random_floats(dtype, {16, 16 / group, size, size}, 2),
           random_floats(dtype, {16}, 3)},
          {1, 2});
      node.then(Binary{BinaryFn::kAdd}, random_floats(dtype, kImage, 4), false);
      return node;
    };
    const OneNode half = conv(DType::kFloat16, 1), single = conv(DType::kFloat32, 1);
    check("conv_sm90", conv_sm90(), half, 90, within(0.05, 0.01));
    check("conv_sm80", conv_sm80(), half, 80, within(0.05, 0.01));
    check("conv_portable", conv_portable(), half, 75, within(0.05, 0.01));
    check("conv_simt", conv_simt(), single, 80, within(1e-4, 1e-5));
    check("conv_direct", conv_direct_cuda(), single, 80, within(1e-4, 1e-5));
    check("depthwise", conv_depthwise(), conv(DType::kFloat16, 16), 80, within(0.02, 0.01));
  }
  ConvTranspose up;
  up.window = window(2, 0);
  up.window.strides = {2, 2};
  up.output_padding = {0, 0};
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    const OneNode node(up,
                       {random_floats(dtype, {1, 16, 2, 3}, 1),
                        random_floats(dtype, {16, 16, 2, 2}, 2), random_floats(dtype, {16}, 3)},
                       {1, 2});
    const Plan plan = far_apart(node.graph, conv_transpose(), node.group, 80, false, true);
    within(0.05, 0.01)(run_far_apart(plan, conv_transpose(), node.inputs)[0],
                       interpret(node.graph, node.inputs)[0]);
  }
}

TEST(LargeOffsets, EveryOtherFamily) {
  BRAZE_NEEDS_EMULATOR();
  OneNode chain(Binary{BinaryFn::kAdd}, {halves(kImage, 1), halves(kImage, 2)});
  chain.then(Unary{UnaryFn::kRelu});
  check("pointwise", pointwise(), chain, 80, rounded(DType::kFloat16));
  check("relayout", relayout(), OneNode(Identity{}, {halves(kImage, 1)}), 80, expect_same);
  check("pool", pool(),
        OneNode(Pool{PoolFn::kMax, window(2, 0), false, false, false}, {halves(kImage, 1)}), 80,
        expect_same);
  check("average", pool(),
        OneNode(Pool{PoolFn::kAverage, window(3, 1), false, true, false}, {halves(kImage, 1)}), 80,
        rounded(DType::kFloat16, 1e-3));
  check("reduce", reduce(),
        OneNode(Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {halves(kImage, 1)}), 80,
        rounded(DType::kFloat16, 1e-3));
  check("softmax", softmax(), OneNode(Softmax{1, false, false}, {halves(kImage, 1)}), 80,
        rounded(DType::kFloat16, 1e-3));
  check("instance_norm", instance_norm(),
        OneNode(InstanceNorm{}, {halves(kImage, 1), halves({16}, 2), halves({16}, 3)}, {1, 2}), 80,
        within(0.02, 0.01));
  check("lrn", lrn(), OneNode(Lrn{5, 1e-4, 0.6, 1}, {halves(kImage, 1)}), 80,
        rounded(DType::kFloat16, 1e-3));
  Resize linear;
  linear.mode = ResizeMode::kLinear;
  linear.sizes = {2, 16, 4, 6};
  linear.scales = {1, 1, 2, 2};
  linear.roi = {0, 0, 0, 0, 1, 1, 1, 1};
  check("resize", resize(), OneNode(linear, {halves(kImage, 1)}), 80,
        rounded(DType::kFloat16, 1e-3));
  check("concat", concat(), OneNode(Concat{1}, {halves(kImage, 1), halves(kImage, 2)}), 80,
        expect_same);
  check("pad", pad(),
        OneNode(Pad{PadMode::kReflect, {0, 0, 1, 1, 0, 0, 1, 1}, 0}, {halves(kImage, 1)}), 80,
        expect_same);
  const Slice part{{1, 8, 0, 0}, {2, 16, 2, 3}, {}, {1, 1, 1, 1}};
  check("slice", slice(), OneNode(part, {halves(kImage, 1)}), 80, expect_same);
  check("transpose", transpose(), OneNode(Transpose{{0, 1, 3, 2}}, {halves(kImage, 1)}), 80,
        expect_same);
}

}  // namespace
}  // namespace braze::cuda::testing
