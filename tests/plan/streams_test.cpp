// Kernels that run at once: which they are, what they wait for, and that they share no bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "passes/net.hpp"
#include "plan/device_families.hpp"
#include "plan/make_plan.hpp"
#include "plan/order.hpp"
#include "plan/stages.hpp"

namespace braze::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Plan plan_of(const Net& net, const Device& device = cuda_device(90), int streams = 0) {
  PlanOptions options;
  options.streams = streams;
  return make_plan(net.graph, device, options, device_families());
}

/// `length` convolutions after each other.
ValueId tower(Net& net, const std::string& name, ValueId x, int length, std::int64_t channels = 8) {
  for (int i = 0; i < length; ++i)
    x = net.conv(name + std::to_string(i), x, channels, window2d(3, 1));
  return x;
}

/// stem -> left and right tower -> sum
Net two_towers(int left, int right, std::int64_t extent = 16) {
  Net net;
  const ValueId stem = net.conv("stem", net.input("x", {1, 8, extent, extent}), 8, window2d(3, 1));
  const ValueId a = tower(net, "left", stem, left);
  const ValueId b =
      net.op("pool", Pool{PoolFn::kMax, window2d(3, 1)}, {tower(net, "right", stem, right)});
  net.output(net.op("join", Concat{2}, {a, b}));
  return net;
}

const KernelPlan& kernel_of(const Plan& plan, const std::string& node) {
  for (const KernelPlan& kernel : plan.kernels)
    if (std::count(kernel.nodes.begin(), kernel.nodes.end(), node) > 0) return kernel;
  throw std::runtime_error("no kernel does " + node);
}

std::vector<std::string> waits_of(const Plan& plan, const std::string& node) {
  std::vector<std::string> names;
  for (const std::int32_t other : kernel_of(plan, node).waits)
    names.push_back(plan.kernels[static_cast<std::size_t>(other)].nodes.back());
  return names;
}

bool one_stream(const Plan& plan) {
  return std::all_of(plan.kernels.begin(), plan.kernels.end(), [](const KernelPlan& kernel) {
    return kernel.stream == 0 && kernel.waits.empty();
  });
}

TEST(Streams, LongBranchesThatLeaveTheGpuIdleRunAtOnce) {
  const Net net = two_towers(10, 9);
  const Plan plan = plan_of(net);
  std::set<std::int32_t> left, right;
  for (int i = 0; i < 10; ++i) left.insert(kernel_of(plan, "left" + std::to_string(i)).stream);
  for (int i = 0; i < 9; ++i) right.insert(kernel_of(plan, "right" + std::to_string(i)).stream);
  EXPECT_EQ(left.size(), 1U);
  EXPECT_EQ(right.size(), 1U);
  EXPECT_NE(*left.begin(), *right.begin());
  EXPECT_EQ(kernel_of(plan, "stem").stream, 0);
  EXPECT_EQ(kernel_of(plan, "join").stream, 0);
  // The branch beside the main stream begins after the fork and ends before the join.
  const std::string first = *left.begin() == 0 ? "right0" : "left0";
  const std::string last = *left.begin() == 0 ? "pool" : "left9";
  EXPECT_THAT(waits_of(plan, first), ElementsAre("stem"));
  EXPECT_THAT(waits_of(plan, "join"), ElementsAre(last));
  EXPECT_THAT(waits_of(plan, "left1"), IsEmpty());
  EXPECT_THAT(print(plan), HasSubstr("; stream 1; after k0_conv\n"));
}

TEST(Streams, ShortBranchesDoNot) { EXPECT_TRUE(one_stream(plan_of(two_towers(2, 2)))); }

TEST(Streams, BranchesThatFillTheGpuDoNot) {
  EXPECT_FALSE(one_stream(plan_of(two_towers(10, 10))));
  EXPECT_TRUE(one_stream(plan_of(two_towers(10, 10, 256))));
}

TEST(Streams, NeitherOnTheCpuNorWhereOneIsAskedFor) {
  EXPECT_TRUE(one_stream(plan_of(two_towers(10, 10), cpu_device(1))));
  EXPECT_TRUE(one_stream(plan_of(two_towers(10, 10), cuda_device(90), 1)));
}

TEST(Streams, ManyBranchesShareFewStreams) {
  Net net;
  const ValueId stem = net.conv("stem", net.input("x", {1, 8, 16, 16}), 8, window2d(3, 1));
  std::vector<ValueId> ends;
  for (int i = 0; i < 7; ++i) ends.push_back(tower(net, fmt::format("t{}_", i), stem, 8));
  net.output(net.op("join", Concat{2}, ends));
  const auto streams = [](const Plan& plan) {
    std::set<std::int32_t> all;
    for (const KernelPlan& kernel : plan.kernels) all.insert(kernel.stream);
    return all.size();
  };
  EXPECT_EQ(streams(plan_of(net)), 4U);
  EXPECT_EQ(streams(plan_of(net, cuda_device(90), 2)), 2U);
}

TEST(Streams, BranchesOfTheWholeNetworkNeedNoForkOrJoin) {
  Net net;
  net.output(tower(net, "a", net.input("x", {1, 8, 16, 16}), 12));
  net.output(tower(net, "b", net.input("y", {1, 8, 16, 16}), 12));
  const Plan plan = plan_of(net);
  EXPECT_NE(kernel_of(plan, "a0").stream, kernel_of(plan, "b0").stream);
  for (const KernelPlan& kernel : plan.kernels) EXPECT_THAT(kernel.waits, IsEmpty());
}

TEST(Streams, ValuesOfBranchesThatRunAtOnceShareNoBytes) {
  // One after the other, two buffers would do for both towers.
  const Net net = two_towers(10, 9);
  const std::int64_t together = plan_of(net).arena_bytes;
  const std::int64_t alone = plan_of(net, cuda_device(90), 1).arena_bytes;
  EXPECT_GT(together, alone);
  EXPECT_LE(together, 5 * 8 * 16 * 16 * 4);
}

// ---- Random networks on random streams

/// A plan whose kernels are on streams that no one chose.
Plan on_random_streams(Net& net, FusionLevel fusion) {
  const Registry registry = device_families();
  Plan plan;
  plan.graph = net.graph.compacted();
  plan.device = cuda_device(90);
  plan.options.fusion = fusion;
  form_groups(plan, registry);
  assign_layouts(plan, registry);
  make_views(plan, registry);
  choose_candidates(plan, registry, {});
  const std::int64_t streams = net.pick(1, 4);
  for (KernelPlan& kernel : plan.kernels)
    kernel.stream = static_cast<std::int32_t>(net.pick(0, streams - 1));
  assign_waits(plan);
  assign_memory(plan, registry);
  return plan;
}

/// Kernels that have ended when each begins, by walking back along streams and waits.
std::vector<std::set<std::size_t>> ended_before(const Plan& plan) {
  std::vector<std::set<std::size_t>> ended(plan.kernels.size());
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const auto add = [&](std::size_t other) {
      ended[k].insert(ended[other].begin(), ended[other].end());
      ended[k].insert(other);
    };
    for (std::size_t other = 0; other < k; ++other)
      if (plan.kernels[other].stream == plan.kernels[k].stream) add(other);
    for (const std::int32_t other : plan.kernels[k].waits) add(static_cast<std::size_t>(other));
  }
  return ended;
}

struct Touch {
  std::size_t kernel;
  ValueId value, root;
  bool writes;
};

std::vector<Touch> touches_of(const Plan& plan) {
  const auto root = [&](ValueId id) {
    while (plan.placements[static_cast<std::size_t>(id)].view_of != kNoValue)
      id = plan.placements[static_cast<std::size_t>(id)].view_of;
    return id;
  };
  std::vector<Touch> touches;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    for (const ValueId id : plan.kernels[k].group.inputs) {
      if (!plan.graph.value(id).is_constant()) touches.push_back({k, id, root(id), false});
    }
    for (const ValueId id : plan.kernels[k].group.outputs)
      touches.push_back({k, id, root(id), true});
  }
  return touches;
}

/// Do two values have a byte in common? Slices of one channels-last image interleave.
bool share_bytes(const Plan& plan, const Touch& x, const Touch& y) {
  const Placement& a = plan.placements[static_cast<std::size_t>(x.value)];
  const Placement& b = plan.placements[static_cast<std::size_t>(y.value)];
  if (a.memory != b.memory || a.index != b.index) return false;
  if (a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes) return false;
  if (x.root != y.root || a.layout != Layout::kChannelsLast || b.layout != Layout::kChannelsLast ||
      a.pitch != b.pitch)
    return true;
  const auto size = static_cast<std::int64_t>(size_of(plan.graph.value(x.value).dtype));
  const std::int64_t base = plan.placements[static_cast<std::size_t>(x.root)].offset / size;
  const auto from = [&](const Placement& p) { return (p.offset / size - base) % a.pitch; };
  return from(a) < from(b) + plan.graph.value(y.value).shape[1] &&
         from(b) < from(a) + plan.graph.value(x.value).shape[1];
}

void expect_safe(const Plan& plan) {
  const auto ended = ended_before(plan);
  const std::vector<Touch> touches = touches_of(plan);
  const auto before = [&](std::size_t a, std::size_t b) { return ended[b].contains(a); };
  const Order order(plan);
  for (std::size_t a = 0; a < plan.kernels.size(); ++a) {
    for (std::size_t b = 0; b < plan.kernels.size(); ++b)
      ASSERT_EQ(order.before(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b)),
                before(a, b));
  }
  for (const Touch& x : touches) {
    for (const Touch& y : touches) {
      if (x.kernel >= y.kernel) continue;
      const bool related = before(x.kernel, y.kernel);
      // What is read has been written.
      if (x.writes && !y.writes && x.value == y.value) {
        ASSERT_TRUE(related) << print(plan);
      }
      if ((x.writes || y.writes) && share_bytes(plan, x, y)) {
        ASSERT_TRUE(related) << plan.kernels[x.kernel].name << " and "
                             << plan.kernels[y.kernel].name << " touch "
                             << plan.graph.value(x.value).name << " and "
                             << plan.graph.value(y.value).name << " at once\n"
                             << print(plan);
      }
    }
  }
  // Values of two storages that share bytes: one is done with before the other begins, but for the
  // kernel that writes over what it reads.
  for (const Touch& x : touches) {
    for (const Touch& y : touches) {
      if (x.root >= y.root || !share_bytes(plan, x, y)) continue;
      const auto first_to_last = [&](ValueId a, ValueId b) {
        for (const Touch& u : touches) {
          for (const Touch& v : touches) {
            if (u.root == a && v.root == b && u.kernel != v.kernel && !before(u.kernel, v.kernel))
              return false;
          }
        }
        return true;
      };
      ASSERT_TRUE(first_to_last(x.root, y.root) || first_to_last(y.root, x.root))
          << plan.graph.value(x.root).name << " and " << plan.graph.value(y.root).name << "\n"
          << print(plan);
    }
  }
}

TEST(Streams, RandomNetworksOnRandomStreamsAreSafe) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Net net(seed);
    std::vector<ValueId> values = {net.input("x", {1, 8, 16, 16})};
    for (int i = 0; i < 18; ++i) {
      const ValueId v = values[static_cast<std::size_t>(
          net.pick(0, static_cast<std::int64_t>(values.size()) - 1))];
      const std::string id = "n" + std::to_string(i);
      switch (net.pick(0, 5)) {
        case 0:
          values.push_back(net.conv(id, v, 4 * net.pick(1, 6), window2d(3, 1)));
          break;
        case 1:
          values.push_back(net.unary(id, UnaryFn::kExp, v));
          break;
        case 2:
          values.push_back(net.op(id, Concat{1}, {v, values.back()}));
          break;
        case 3:
          values.push_back(net.slice(id, v, 1, 0, std::max<std::int64_t>(1, net.shape(v)[1] / 2)));
          break;
        case 4:
          values.push_back(
              net.add(id, v, net.conv(id + "c", values.back(), net.shape(v)[1], window2d(1))));
          break;
        default:
          values.push_back(net.op(id, Pool{PoolFn::kMax, window2d(3, 1)}, {v}));
          break;
      }
    }
    net.output(values.back());
    net.output(values[values.size() - 3]);
    net.graph.remove_dead();
    for (const FusionLevel fusion : {FusionLevel::kOff, FusionLevel::kFull})
      expect_safe(on_random_streams(net, fusion));
    expect_safe(plan_of(net));
  }
}

}  // namespace
}  // namespace braze::test
