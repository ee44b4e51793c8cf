// One node, run by a CUDA family on the emulated GPU in every layout it takes, against the
// interpreter; and its sources, for compilers of real ones.
#pragma once

#include <set>

#include "kernels/cuda/families.hpp"
#include "kernels/one_node.hpp"
#include "support/simt/emulated_gpu.hpp"

namespace braze::cuda::testing {

using cpu::testing::Compare;
using cpu::testing::counting_tensor;
using cpu::testing::expect_same;
using cpu::testing::LayoutChoice;
using cpu::testing::OneNode;
using cpu::testing::random_tensor;

inline Plan one_kernel_plan(const Graph& graph, const Row& row, Group group,
                            const std::map<ValueId, LayoutChoice>& layouts, int sm = 90) {
  Plan plan =
      cpu::testing::one_kernel_plan(graph, {row.family, nullptr}, std::move(group), layouts);
  plan.device = cuda_device(sm);
  plan.kernels[0].backend = "cuda";
  return plan;
}

/// Bytes that the emulated GPU's memory holds before they are written.
inline constexpr std::byte kUnwritten{0xff};

/// Runs the plan's only kernel. Tensors are in logical order and of the dtypes that lie in memory.
inline std::vector<Tensor> run_on_gpu(const Plan& plan, const Row& row,
                                      std::span<const Tensor> inputs) {
  const KernelPlan& kernel = plan.kernels.front();
  const auto placed = [&plan](ValueId id) {
    const Value& value = plan.graph.value(id);
    const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
    const bool last = placement.layout == Layout::kChannelsLast;
    return cpu::testing::Placed(value.dtype, value.shape,
                                {placement.layout, last ? placement.pitch - value.shape[1] : 0});
  };
  std::vector<std::vector<std::byte>> in;
  std::vector<std::size_t> out_bytes;
  for (std::size_t i = 0; i < kernel.group.inputs.size(); ++i) {
    cpu::testing::Placed value = placed(kernel.group.inputs[i]);
    value.set(inputs[i]);
    const auto* data = static_cast<const std::byte*>(value.data());
    in.emplace_back(data, data + value.placement().bytes);
  }
  for (const ValueId id : kernel.group.outputs)
    out_bytes.push_back(
        static_cast<std::size_t>(plan.placements[static_cast<std::size_t>(id)].bytes));
  const Kernel built = row.build(plan, kernel);
  std::vector<std::vector<std::byte>> out;
  if (built.host != nullptr) {
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const auto& bytes : in) from.push_back(bytes.data());
    for (const std::size_t bytes : out_bytes) out.emplace_back(bytes, kUnwritten);
    for (auto& bytes : out) to.push_back(bytes.data());
    built.host->run({from, to});
  } else if (built.grid.x == 0) {
    for (const std::size_t bytes : out_bytes) out.emplace_back(bytes, kUnwritten);
  } else {
    out = test::run_kernel(built, in, out_bytes, plan.device.sm).front();
  }
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    cpu::testing::Placed value = placed(kernel.group.outputs[i]);
    const std::size_t size = size_of(plan.graph.value(kernel.group.outputs[i]).dtype);
    std::memcpy(value.data(), out[i].data(), out[i].size());
    const std::vector<std::int64_t> offsets = value.offsets();
    std::vector<bool> mine(out[i].size() / size, false);
    for (const std::int64_t at : offsets) mine[static_cast<std::size_t>(at)] = true;
    for (std::size_t at = 0; at < out[i].size(); ++at) {
      if (mine[at / size] || out[i][at] == kUnwritten) continue;
      ADD_FAILURE() << "the kernel wrote to byte " << at << " of output " << i
                    << ", which is no element's";
      break;
    }
    results.push_back(value.get());
  }
  return results;
}

/// |got - want| <= absolute + relative |want| for all elements of any float type; NaN matches NaN,
/// infinities themselves.
inline Compare within(double absolute, double relative) {
  return [absolute, relative](const Tensor& got, const Tensor& want) {
    ASSERT_EQ(got.dtype(), want.dtype());
    ASSERT_EQ(got.shape(), want.shape());
    const std::vector<double> g = load<double>(got), w = load<double>(want);
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (std::isnan(w[i])
              ? std::isnan(g[i])
              : (g[i] == w[i] || std::fabs(g[i] - w[i]) <= absolute + relative * std::fabs(w[i])))
        continue;
      FAIL() << "element " << i << " is " << g[i] << ", expected " << w[i];
    }
  };
}

/// One unit in the last place of a dtype, since the interpreter rounds too, and a few of fp32.
inline Compare rounded(DType dtype, double absolute = 1e-6) {
  const double unit = dtype == DType::kFloat16 ? 0x1p-10 : dtype == DType::kBFloat16 ? 0x1p-7 : 0;
  return within(absolute + (dtype == DType::kFloat16 ? 0x1p-24 : 0), unit + 4e-6);
}

/// Runs the node in layouts that the family's rule allows, with and without gaps between pixels.
/// `choices` limits how many, drawn with `seed`.
inline void check_node(const Row& row, const OneNode& node, const Compare& compare = expect_same,
                       std::size_t most_choices = 4, unsigned seed = 0) {
  static const Device device = cuda_device(90);
  const Support support =
      row.family.supports(node.graph, node.graph.node(node.group.members[0].anchor), device);
  ASSERT_TRUE(support.ok) << support.reason << "\n" << print(node.graph);
  const std::vector<Tensor> want = interpret(node.graph, node.inputs);
  std::vector<ValueId> images;
  for (const std::vector<ValueId>* ids : {&node.group.inputs, &node.group.outputs}) {
    for (const ValueId id : *ids) {
      if (node.graph.value(id).shape.size() >= 3) images.push_back(id);
    }
  }
  const LayoutRule rule = row.family.layouts;
  const bool each = rule == LayoutRule::kEach;
  std::mt19937 random(seed + static_cast<unsigned>(images.size()));
  std::size_t choices = each ? std::size_t{1} << std::min<std::size_t>(images.size(), 3)
                        : rule == LayoutRule::kSame ? 2
                                                    : 1;
  const std::size_t first = choices > most_choices ? random() % choices : 0;
  for (std::size_t i = 0; i < std::min(choices, most_choices); ++i) {
    // All in model layout and all channels-last come first.
    std::size_t choice = i == 0 ? 0 : i == 1 ? choices - 1 : (first + i) % choices;
    std::map<ValueId, LayoutChoice> layouts;
    for (std::size_t k = 0; k < images.size(); ++k) {
      const bool last = rule == LayoutRule::kChannelsLast ||
                        (each ? (k < 3 ? (choice >> k & 1) != 0 : random() % 2 != 0) : choice == 1);
      const std::int64_t gaps[] = {0, 0, 3, 8};
      const std::int64_t gap = row.family.pitched && i > 0 ? gaps[random() % 4] : 0;
      if (last) layouts[images[k]] = {Layout::kChannelsLast, gap};
    }
    const Plan plan = one_kernel_plan(node.graph, row, node.group, layouts);
    const std::vector<Tensor> got = run_on_gpu(plan, row, node.inputs);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < want.size(); ++k) compare(got[k], want[k]);
    if (::testing::Test::HasFailure()) {
      FAIL() << cpu::testing::print_layouts(node.graph, layouts) << "\n"
             << row.build(plan, plan.kernels[0]).source;
    }
  }
}

/// A tensor of a float dtype with values in [lo, hi).
inline Tensor random_floats(DType dtype, Shape shape, unsigned seed, float lo = -1, float hi = 1) {
  return cast(random_tensor(std::move(shape), seed, lo, hi), dtype);
}

}  // namespace braze::cuda::testing
