// Runs one CPU kernel family on one group and compares it with the interpreter.
//
// The caller builds a graph (anchor, then epilogue nodes), says which nodes form the group, and
// picks layouts; the harness lays the inputs out (gaps between pixels and after the last element
// are NaN or 0x7f bytes), runs the kernel on an undefined workspace and brings the outputs back to
// logical order. It also checks that nothing outside the output's elements was written.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "graph/graph.hpp"
#include "graph/interpret.hpp"
#include "kernels/cpu/families.hpp"
#include "plan/plan.hpp"

namespace braze::cpu::testing {

struct LayoutChoice {
  Layout layout = Layout::kModel;
  std::int64_t extra_pitch = 0;  // channels-last: pitch = C + extra_pitch
};

inline Tensor random_tensor(Shape shape, unsigned seed, float lo = -1, float hi = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(lo, hi);
  Tensor tensor = Tensor::make(DType::kFloat32, std::move(shape));
  for (std::int64_t i = 0; i < tensor.count(); ++i) tensor.as<float>()[i] = uniform(generator);
  return tensor;
}

/// Bytes of a value in a layout, and where logical element i lies.
class Placed {
 public:
  Placed(DType dtype, Shape shape, LayoutChoice choice)
      : dtype_(dtype), shape_(std::move(shape)), choice_(choice) {
    const std::size_t rank = shape_.size();
    strides_.assign(rank, 0);
    std::int64_t stride = 1;
    if (choice_.layout == Layout::kChannelsLast) {
      strides_[1] = 1;
      stride = shape_[1] + choice_.extra_pitch;
      for (std::size_t axis = rank; axis-- > 2;) strides_[axis] = stride, stride *= shape_[axis];
      strides_[0] = stride;
    } else {
      for (std::size_t axis = rank; axis-- > 0;) strides_[axis] = stride, stride *= shape_[axis];
    }
    extent_ = 0;
    const std::int64_t count = element_count(shape_);
    for (std::int64_t i = 0; i < count; ++i) extent_ = std::max(extent_, offset(i) + 1);
    bytes_.assign(static_cast<std::size_t>(extent_ + kGuard) * size_of(dtype_),
                  0x7f);                                                    // 0x7f7f7f7f is 3.4e38f
    if (is_float(dtype_)) std::memset(bytes_.data(), 0xff, bytes_.size());  // NaN
  }

  void set(const Tensor& tensor) {
    const std::size_t size = size_of(dtype_);
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      std::memcpy(&bytes_[static_cast<std::size_t>(offset(i)) * size],
                  tensor.as<char>() + static_cast<std::size_t>(i) * size, size);
    }
  }
  [[nodiscard]] Tensor get() const {
    Tensor tensor = Tensor::make(dtype_, shape_);
    const std::size_t size = size_of(dtype_);
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      std::memcpy(tensor.as<char>() + static_cast<std::size_t>(i) * size,
                  &bytes_[static_cast<std::size_t>(offset(i)) * size], size);
    }
    return tensor;
  }
  /// True if every byte that belongs to no element still has its first value.
  [[nodiscard]] bool gaps_intact() const {
    const std::size_t size = size_of(dtype_);
    std::vector<char> mine(bytes_.size(), 0);
    const std::int64_t count = element_count(shape_);
    for (std::int64_t i = 0; i < count; ++i)
      std::memset(&mine[static_cast<std::size_t>(offset(i)) * size], 1, size);
    const char poison = is_float(dtype_) ? '\xff' : '\x7f';
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (mine[i] == 0 && bytes_[i] != poison) return false;
    }
    return true;
  }
  [[nodiscard]] void* data() { return bytes_.data(); }
  /// Where each logical element lies, in elements.
  [[nodiscard]] std::vector<std::int64_t> offsets() const {
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(element_count(shape_)));
    for (std::size_t i = 0; i < offsets.size(); ++i)
      offsets[i] = offset(static_cast<std::int64_t>(i));
    return offsets;
  }
  [[nodiscard]] Placement placement() const {
    Placement placement;
    placement.memory = Memory::kArena;
    placement.layout = choice_.layout;
    placement.pitch = choice_.layout == Layout::kChannelsLast ? shape_[1] + choice_.extra_pitch : 0;
    placement.bytes = extent_ * static_cast<std::int64_t>(size_of(dtype_));
    return placement;
  }

 private:
  static constexpr std::int64_t kGuard = 64;
  [[nodiscard]] std::int64_t offset(std::int64_t index) const {
    std::int64_t result = 0;
    for (std::size_t axis = shape_.size(); axis-- > 0;) {
      result += index % shape_[axis] * strides_[axis];
      index /= shape_[axis];
    }
    return result;
  }
  DType dtype_;
  Shape shape_;
  LayoutChoice choice_;
  std::vector<std::int64_t> strides_;
  std::int64_t extent_ = 0;
  std::vector<char> bytes_;
};

/// A plan with one kernel. `layouts` may name any value; values not named are in model layout,
/// constants always are.
inline Plan one_kernel_plan(const Graph& graph, const Row& row, Group group,
                            const std::map<ValueId, LayoutChoice>& layouts = {}) {
  Plan plan;
  plan.graph = graph;
  static const Device device = cpu_device(1);
  plan.device = device;
  plan.placements.resize(static_cast<std::size_t>(graph.value_count()));
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    const auto choice = layouts.find(id);
    Placement& placement = plan.placements[static_cast<std::size_t>(id)];
    placement =
        Placed(value.dtype, value.shape, choice == layouts.end() ? LayoutChoice{} : choice->second)
            .placement();
    if (value.is_constant()) placement.memory = Memory::kConstant;
  }
  KernelPlan kernel;
  kernel.name = "k0";
  kernel.family = row.family.name;
  kernel.backend = "cpu";
  kernel.group = std::move(group);
  if (row.family.candidates != nullptr) {
    const std::vector<Candidate> candidates =
        row.family.candidates(graph, kernel.group, plan.device);
    if (!candidates.empty()) kernel.candidate = candidates.front();
  }
  plan.kernels.push_back(std::move(kernel));
  return plan;
}

/// A pool of that many workers that lives until the process ends (starting one takes tens of
/// milliseconds); null for one.
inline pthreadpool_t shared_pool(std::size_t threads) {
  if (threads <= 1) return nullptr;
  static std::map<std::size_t, pthreadpool_t> pools;
  pthreadpool_t& pool = pools[threads];
  if (pool == nullptr) pool = pthreadpool_create(threads);
  return pool;
}

/// Runs the plan's only kernel. `inputs` and the result are in logical order and match group.inputs
/// and group.outputs.
inline std::vector<Tensor> run_kernel(const Plan& plan, const Row& row,
                                      std::span<const Tensor> inputs, std::size_t threads = 1) {
  const KernelPlan& kernel = plan.kernels.front();
  const auto placed = [&plan](ValueId id) {
    const Value& value = plan.graph.value(id);
    const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
    LayoutChoice choice{placement.layout, placement.layout == Layout::kChannelsLast
                                              ? placement.pitch - value.shape[1]
                                              : 0};
    return Placed(value.dtype, value.shape, choice);
  };
  std::vector<Placed> in;
  std::vector<Placed> out;
  for (std::size_t i = 0; i < kernel.group.inputs.size(); ++i)
    in.push_back(placed(kernel.group.inputs[i])), in.back().set(inputs[i]);
  for (const ValueId id : kernel.group.outputs) out.push_back(placed(id));
  std::vector<const void*> in_pointers;
  std::vector<void*> out_pointers;
  for (Placed& value : in) in_pointers.push_back(value.data());
  for (Placed& value : out) out_pointers.push_back(value.data());

  const std::unique_ptr<Kernel> built = row.build(plan, kernel);
  const std::size_t bytes = (built->workspace_bytes(threads) + 127) / 64 * 64;
  const std::unique_ptr<void, decltype(&std::free)> workspace(std::aligned_alloc(64, bytes),
                                                              std::free);
  std::memset(workspace.get(), 0xff, bytes);
  built->run({in_pointers, out_pointers, workspace.get(), shared_pool(threads)});

  std::vector<Tensor> results;
  for (const Placed& value : out) {
    EXPECT_TRUE(value.gaps_intact()) << "the kernel wrote outside its output";
    results.push_back(value.get());
  }
  return results;
}

/// |got - want| <= tolerance(element) for all elements; NaN matches NaN, infinities match
/// themselves.
inline void expect_close(const Tensor& got, const Tensor& want, double absolute, double relative) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_EQ(got.shape(), want.shape());
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const double g = got.as<float>()[i];
    const double w = want.as<float>()[i];
    if (std::isnan(w) ? std::isnan(g)
                      : (g == w || std::fabs(g - w) <= absolute + relative * std::fabs(w)))
      continue;
    FAIL() << "element " << i << " is " << g << ", expected " << w;
  }
}

}  // namespace braze::cpu::testing
