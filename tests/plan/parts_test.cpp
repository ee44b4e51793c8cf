// Which values of a group lie inside of others.
#include "plan/parts.hpp"

#include <gtest/gtest.h>

#include "passes/net.hpp"

namespace braze::test {
namespace {

/// Every node of a net as members of its own, one for each result; the last one is stored.
Group group_of(const Net& net) {
  Group group;
  group.inputs = net.graph.inputs;
  for (const NodeId id : net.graph.order()) {
    for (const ValueId result : net.graph.node(id).outputs)
      group.members.push_back({id, {}, result});
  }
  group.outputs = {group.members.back().result};
  return group;
}

ValueId conv(Net& net, const char* id, ValueId x, std::int64_t channels) {
  return net.conv(id, x, channels, window2d(1));
}

void expect_part(const std::map<ValueId, PartOf>& parts, ValueId id, ValueId whole,
                 std::int64_t channel) {
  ASSERT_TRUE(parts.contains(id));
  EXPECT_EQ(parts.at(id).whole, whole);
  EXPECT_EQ(parts.at(id).channel, channel);
}

TEST(Parts, SlicesAndSplitsLieInWhatTheyAreCutFrom) {
  Net net;
  const ValueId x = conv(net, "x", net.input("in", {1, 4, 6, 6}), 10);
  const ValueId slice = net.slice("slice", x, 1, 3, 7);
  const std::vector<ValueId> split = net.split("split", slice, {1, 3});
  net.output(net.add("sum", conv(net, "a", split[0], 2), conv(net, "b", split[1], 2)));
  const auto parts = parts_of(net.graph, group_of(net));
  EXPECT_EQ(parts.size(), 3U);
  expect_part(parts, slice, x, 3);
  expect_part(parts, split[0], slice, 0);
  expect_part(parts, split[1], slice, 1);
}

TEST(Parts, StepsAndRowsAreNoParts) {
  Net net;
  const ValueId x = conv(net, "x", net.input("in", {1, 4, 6, 6}), 8);
  const ValueId even = net.slice("even", x, 1, 0, 8, 2);
  const ValueId top = net.slice("top", x, 2, 0, 3);
  net.output(net.op("all", Concat{2}, {conv(net, "a", even, 8), top}));
  EXPECT_TRUE(parts_of(net.graph, group_of(net)).empty());
}

TEST(Parts, WhatOnlyAConcatReadsLiesInIt) {
  Net net;
  const ValueId x = net.input("in", {1, 4, 6, 6});
  const ValueId a = conv(net, "a", x, 3), b = conv(net, "b", x, 5), c = conv(net, "c", b, 2);
  const ValueId twice = conv(net, "twice", x, 1);
  const ValueId all = net.op("all", Concat{1}, {a, b, c, x, twice, twice});
  net.output(conv(net, "y", all, 4));
  const auto parts = parts_of(net.graph, group_of(net));
  EXPECT_EQ(parts.size(), 2U);  // b is read by c too, x is in memory
  expect_part(parts, a, all, 0);
  expect_part(parts, c, all, 8);
}

TEST(Parts, WhatIsStoredIsNoPart) {
  Net net;
  const ValueId x = net.input("in", {1, 4, 6, 6});
  const ValueId a = conv(net, "a", x, 3);
  const ValueId cut = net.slice("cut", a, 1, 1, 2);
  net.output(net.op("all", Concat{1}, {conv(net, "b", cut, 3), conv(net, "c", x, 3)}));
  Group group = group_of(net);
  EXPECT_EQ(parts_of(net.graph, group).size(), 3U);
  group.outputs.push_back(cut);
  group.outputs.push_back(group.members[2].result);  // b
  EXPECT_EQ(parts_of(net.graph, group).size(), 1U);
}

/// A Concat of two convolutions of `a` and `b` channels, shuffled.
struct Shuffled {
  Shuffled(std::int64_t a, std::int64_t b, std::int64_t groups) {
    const ValueId x = net.input("in", {1, 4, 6, 6});
    concat = net.op("concat", Concat{1}, {conv(net, "a", x, a), conv(net, "b", x, b)});
    net.output(conv(net, "y", net.op("shuffle", ChannelShuffle{groups}, {concat}), 4));
  }
  [[nodiscard]] bool zipped(const Group& group) const {
    const bool is = is_zipped(net.graph, group, net.graph.node(net.graph.producer(concat)));
    EXPECT_EQ(parts_of(net.graph, group).size(), is ? 0U : 2U);
    return is;
  }
  Net net;
  ValueId concat = kNoValue;
};

TEST(Parts, AShuffleReadsTheInputsOfAConcatWhereItMakesOrTakesApartPairs) {
  const auto zipped = [](std::int64_t a, std::int64_t b, std::int64_t groups) {
    const Shuffled shuffled(a, b, groups);
    return shuffled.zipped(group_of(shuffled.net));
  };
  EXPECT_TRUE(zipped(6, 6, 2));
  EXPECT_TRUE(zipped(6, 6, 6));
  EXPECT_TRUE(zipped(4, 8, 6));
  EXPECT_FALSE(zipped(4, 8, 2));
  EXPECT_FALSE(zipped(3, 9, 6));
  EXPECT_FALSE(zipped(6, 6, 3));
}

TEST(Parts, AConcatThatOthersNeedIsNotZipped) {
  Shuffled shuffled(6, 6, 2);
  Group group = group_of(shuffled.net);
  group.outputs.push_back(shuffled.concat);
  EXPECT_FALSE(is_zipped(shuffled.net.graph, group,
                         shuffled.net.graph.node(shuffled.net.graph.producer(shuffled.concat))));
  Shuffled read(6, 6, 2);
  read.net.output(conv(read.net, "other", read.concat, 4));
  EXPECT_FALSE(is_zipped(read.net.graph, group_of(read.net),
                         read.net.graph.node(read.net.graph.producer(read.concat))));
}

}  // namespace
}  // namespace braze::test
