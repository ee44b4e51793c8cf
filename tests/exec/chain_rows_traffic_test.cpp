// Bytes that a group moves while it runs, counted call by call: every member's kernel is wrapped,
// so that what is counted is the group's own walk. The plan's numbers are checked against them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/random_chain.hpp"
#include "kernels/cpu/chain_rows.hpp"
#include "plan/make_plan.hpp"

namespace braze::test {
namespace {

using cpu::Image;
using cpu::KernelArguments;
using cpu::RowKernel;

/// Counts accesses to some buffers, float by float, and bytes elsewhere.
class Traffic {
 public:
  struct Buffer {
    const float* data = nullptr;
    std::vector<int> reads, writes;  // by float

    [[nodiscard]] double bytes(const std::vector<int>& counts) const {
      double sum = 0;
      for (const int count : counts) sum += count;
      return sum * sizeof(float);
    }
    /// Of floats that were touched, each once.
    [[nodiscard]] double touched() const {
      double sum = 0;
      for (std::size_t i = 0; i < reads.size(); ++i) sum += reads[i] + writes[i] > 0 ? 1 : 0;
      return sum * sizeof(float);
    }
  };

  std::size_t add(const Tensor& tensor) {
    const auto count = static_cast<std::size_t>(tensor.count());
    buffers.push_back({tensor.as<float>(), std::vector<int>(count), std::vector<int>(count)});
    return buffers.size() - 1;
  }

  /// Rows of image n of an image whose address is `base`.
  void touch(const void* base, const Image& image, std::int64_t n, const Interval& rows,
             bool write) {
    const bool last = image.channels_last();
    const std::int64_t run = last ? image.c : image.w;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t i = 0; i < (last ? image.w : image.c); ++i) {
        const float* at = static_cast<const float*>(base) + n * image.stride_n +
                          row * image.stride_h + i * (last ? image.stride_w : image.stride_c);
        count(at, run, write);
      }
    }
  }

  std::vector<Buffer> buffers;
  const std::byte* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  double inside_read = 0, inside_written = 0;  // bytes in the workspace
  double astray = 0;                           // bytes in no place that the group was given

 private:
  void count(const float* at, std::int64_t floats, bool write) {
    for (Buffer& buffer : buffers) {
      const auto size = static_cast<std::int64_t>(buffer.reads.size());
      if (at < buffer.data || at + floats > buffer.data + size) continue;
      std::vector<int>& counts = write ? buffer.writes : buffer.reads;
      for (std::int64_t i = 0; i < floats; ++i)
        ++counts[static_cast<std::size_t>(at - buffer.data + i)];
      return;
    }
    const auto* const begin = reinterpret_cast<const std::byte*>(at);
    const double bytes = static_cast<double>(floats) * sizeof(float);
    const bool inside =
        begin >= workspace && begin + floats * sizeof(float) <= workspace + workspace_bytes;
    (!inside ? astray : write ? inside_written : inside_read) += bytes;
  }
};

/// A member's kernel that counts the rows that it is told to compute, and those under them.
class CountedRows final : public RowKernel {
 public:
  CountedRows(const Plan& plan, const Group& part, std::unique_ptr<RowKernel> kernel,
              Traffic& traffic)
      : kernel_(std::move(kernel)), traffic_(traffic) {
    const Node& node = plan.graph.node(part.members[0].anchor);
    output_ = cpu::image_of(plan, part.members[0].result);
    for (const ValueId id : part.inputs) {
      Input& input = inputs_.emplace_back();
      input.image = cpu::image_of(plan, id);
      const auto at = std::ranges::find(node.inputs, id);
      if (at == node.inputs.end()) continue;  // of the epilogue: the same pixels
      std::string why;
      const auto read =
          region_read(plan.graph, node, static_cast<std::size_t>(at - node.inputs.begin()), &why);
      input.rows = read.value()[0];
    }
  }
  [[nodiscard]] std::size_t row_workspace_bytes() const override {
    return kernel_->row_workspace_bytes();
  }
  void run(const KernelArguments& arguments) const override { kernel_->run(arguments); }
  void run_rows(const KernelArguments& arguments, std::int64_t n, std::int64_t begin,
                std::int64_t end) const noexcept override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Interval rows = clipped(inputs_[i].rows.of({begin, end}), inputs_[i].image.h);
      traffic_.touch(arguments.inputs[i], inputs_[i].image, n, rows, false);
    }
    traffic_.touch(arguments.outputs[0], output_, n, {begin, end}, true);
    kernel_->run_rows(arguments, n, begin, end);
  }

 private:
  struct Input {
    Image image;
    AxisRead rows;
  };
  std::unique_ptr<RowKernel> kernel_;
  Traffic& traffic_;
  Image output_;
  std::vector<Input> inputs_;
};

/// Groups cost nothing, so that they are made.
Plan eager_plan(const Net& net, int threads) {
  Registry registry = cpu::registry();
  for (KernelFamily& family : registry) {
    if (family.joins == nullptr) continue;
    family.work = [](const Graph&, const Group&, const Candidate&, const Device&) {
      return Work{};
    };
  }
  return make_plan(net.graph, cpu_device(threads), {FusionLevel::kFull, false}, registry);
}

/// Runs a group, and compares what it moves with what the plan says.
void expect_planned_traffic(const Plan& plan, const KernelPlan& kernel,
                            const Candidate& candidate) {
  const Group& group = kernel.group;
  const Tiling tiling = cpu::chain_rows_tiling(plan.graph, group, candidate, plan.device);
  Traffic traffic;
  std::vector<std::unique_ptr<RowKernel>> parts;
  for (std::size_t m = 0; m < group.members.size(); ++m) {
    KernelPlan part;
    part.group = cpu::part_of(plan.graph, group, m);
    const Node& node = plan.graph.node(group.members[m].anchor);
    auto built = cpu::row_of(plan.graph, node, plan.device)->build(plan, part);
    parts.push_back(std::make_unique<CountedRows>(
        plan, part.group, std::unique_ptr<RowKernel>(dynamic_cast<RowKernel*>(built.release())),
        traffic));
  }
  const auto chain = cpu::chain_rows_kernel(plan, kernel, tiling, std::move(parts));

  std::vector<Tensor> tensors;
  const auto make = [&](ValueId id, float value) {
    Tensor& tensor =
        tensors.emplace_back(Tensor::make(DType::kFloat32, plan.graph.value(id).shape));
    std::fill_n(tensor.as<float>(), tensor.count(), value);
    return traffic.add(tensor);
  };
  std::vector<std::size_t> inputs, outputs;
  for (const ValueId id : group.inputs) inputs.push_back(make(id, 0.5F));
  for (const ValueId id : group.outputs) outputs.push_back(make(id, NAN));
  Tensor workspace =
      Tensor::make(DType::kUInt8, {static_cast<std::int64_t>(chain->workspace_bytes(1))});
  traffic.workspace = static_cast<const std::byte*>(workspace.data());
  traffic.workspace_bytes = chain->workspace_bytes(1);
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const std::size_t i : inputs) in.push_back(tensors[i].data());
  for (const std::size_t i : outputs) out.push_back(tensors[i].data());
  chain->run({in, out, workspace.data(), nullptr});

  EXPECT_EQ(traffic.astray, 0) << "a member touched what the group was not given";
  // Every result is written, the last member's once.
  for (const std::size_t i : outputs) {
    for (std::int64_t e = 0; e < tensors[i].count(); ++e)
      ASSERT_FALSE(std::isnan(tensors[i].as<float>()[e]));
  }
  const ValueId last = group.members.back().result;
  const auto result =
      static_cast<std::size_t>(std::ranges::find(group.outputs, last) - group.outputs.begin());
  for (const int writes : traffic.buffers[outputs[result]].writes) ASSERT_EQ(writes, 1);

  // Memory: inputs and outputs; the plan counts constants too. What is stored besides the result is
  // copied by the group itself, whole as seen above.
  double moved = 0;
  for (const std::size_t i : inputs) moved += traffic.buffers[i].touched();
  for (const std::size_t i : outputs) {
    const Traffic::Buffer& buffer = traffic.buffers[i];
    moved += i == outputs[result] ? buffer.touched()
                                  : static_cast<double>(buffer.reads.size()) * sizeof(float);
  }
  for (const Group::Member& member : group.members) {
    for (const ValueId id : plan.graph.node(member.anchor).inputs) {
      if (id != kNoValue && plan.graph.value(id).is_constant())
        moved += static_cast<double>(plan.graph.value(id).constant->count()) * sizeof(float);
    }
  }
  EXPECT_DOUBLE_EQ(moved, kernel.work.dram_bytes);

  for (const Group::Member& member : group.members) {
    if (std::ranges::find(group.outputs, member.result) != group.outputs.end()) continue;
    EXPECT_EQ(plan.placements[static_cast<std::size_t>(member.result)].memory, Memory::kNone);
  }

  // On chip: every intermediate, and what bands compute again of it.
  const std::optional<GroupTiles> tiles = GroupTiles::of(plan.graph, group, nullptr);
  const std::vector<double> computed = tiles->recomputed(tiling.band, tiling.columns);
  double made = 0;
  for (std::size_t m = 0; m + 1 < group.members.size(); ++m) {
    const GroupTiles::Image& image = tiles->images()[tiles->members()[m].image];
    made += computed[m] * static_cast<double>(tiles->batch() * image.extent[0] * image.extent[1] *
                                              image.pixel_bytes);
  }
  EXPECT_NEAR(traffic.inside_written, made, 0.5);
  // Each of them is read, and the rows under two steps' windows oftener.
  EXPECT_GE(traffic.inside_read, traffic.inside_written);
}

void expect_planned_traffic(const Net& net, std::size_t members) {
  for (const int threads : {1, 2}) {
    const Plan plan = eager_plan(net, threads);
    const auto kernel = std::ranges::find(plan.kernels, "chain_rows", &KernelPlan::family);
    ASSERT_NE(kernel, plan.kernels.end()) << print(plan);
    ASSERT_EQ(kernel->group.members.size(), members) << print(plan);
    for (const Candidate& candidate :
         cpu::chain_rows().family.candidates(plan.graph, kernel->group, plan.device)) {
      SCOPED_TRACE(::testing::Message()
                   << threads << " threads, " << candidate.get("rows") << " rows");
      expect_planned_traffic(plan, *kernel, candidate);
    }
  }
}

TEST(ChainRowsTraffic, OfAnInvertedResidual) {
  Net net;
  const ValueId x = net.input("x", {2, 8, 19, 17});
  const ValueId a = net.clip("a", net.conv("expand", x, 24, window2d(1)), 0, 6);
  const ValueId b = net.clip("b", net.conv("dw", a, 24, window2d(3, 1), 24), 0, 6);
  net.output(net.add("sum", x, net.conv("project", b, 8, window2d(1))));
  expect_planned_traffic(net, 3);
}

TEST(ChainRowsTraffic, OfWindowsAndAnIntermediateThatIsStored) {
  Net net;
  const ValueId x = net.input("x", {1, 5, 30, 22});
  const ValueId a = net.clip("a", net.conv("first", x, 12, window2d(3, 1)), 0, 6);
  net.output(net.conv("second", a, 7, window2d(5, 2)));
  net.output(a);
  expect_planned_traffic(net, 2);
}

TEST(ChainRowsTraffic, OfThreeConvolutions) {
  Net net;
  const ValueId x = net.input("x", {1, 6, 33, 20});
  const ValueId a = net.conv("first", x, 16, window2d(3, 1));
  const ValueId b = net.conv("dw", a, 16, window2d(3, 1), 16);
  net.output(net.conv("last", b, 9, window2d(3, 1)));
  expect_planned_traffic(net, 3);
}

}  // namespace
}  // namespace braze::test
