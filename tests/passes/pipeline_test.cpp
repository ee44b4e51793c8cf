// The runner: order, tracing, disabling, failures, and who accounts for which model node.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "passes/check.hpp"
#include "passes/edit.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Net conv_and_batch_norm() {
  Net net;
  net.output(net.batch_norm("bn", net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(3))));
  return net;
}

TEST(Pipeline, TracesWhatChangedTheGraph) {
  Net net = conv_and_batch_norm();
  std::vector<std::string> passes;
  PassOptions options;
  options.trace = [&passes](const PassTrace& trace) {
    EXPECT_EQ(trace.rewrites, 1);
    EXPECT_THAT(print(trace.graph), HasSubstr("conv: Conv("));
    passes.emplace_back(trace.pass);
  };
  simplified(net, options);
  EXPECT_THAT(passes, ElementsAre("fold_affine_into_conv"));
}

TEST(Pipeline, PassesCanBeDisabled) {
  Net net = conv_and_batch_norm();
  PassOptions options;
  options.disabled = {"fold_affine_into_conv", "batch_norm_to_affine"};
  EXPECT_THAT(op_of<BatchNorm>(result(simplified(net, options))).epsilon, 1e-3);
}

TEST(Pipeline, UnknownPassIsAUsageError) {
  Net net = conv_and_batch_norm();
  PassOptions options;
  options.disabled = {"fold_everything"};
  try {
    simplify(net.graph, options);
    FAIL();
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kUsage);
    EXPECT_THAT(exception.error().message, HasSubstr("fold_everything"));
  }
}

// A graph that was broken before: the first pass that changes it finds out.
TEST(Pipeline, FailuresNameThePassAndLeaveTheGraph) {
  Net net = conv_and_batch_norm();
  net.graph.value(net.graph.outputs[0].value).shape = {1, 4, 9, 9};
  PassOptions options;
  const TemporaryFolder folder;
  options.dump_directory = folder.path().string();
  const std::string path = options.dump_directory + "/before_fold_affine_into_conv.txt";
  try {
    simplify(net.graph, options);
    FAIL();
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kInternal);
    EXPECT_THAT(exception.error().message, HasSubstr("pass fold_affine_into_conv: "));
    EXPECT_THAT(exception.error().message, HasSubstr(path));
  }
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("bn: BatchNorm("));
}

TEST(Pipeline, RunsToAFixedPoint) {
  Net net = conv_and_batch_norm();
  Graph graph = simplified(net);
  const std::string once = print(graph);
  PassOptions options;
  options.trace = [](const PassTrace& trace) { ADD_FAILURE() << trace.pass; };
  simplify(graph, options);
  EXPECT_EQ(print(graph), once);
}

TEST(Origins, UnreadNodesAreUnused) {
  Net net = conv_and_batch_norm();
  net.unary("nobody reads this", UnaryFn::kRelu, net.graph.outputs[0].value);
  EXPECT_EQ(folded_into(simplified(net), "nobody reads this"), "unused");
}

// A model node of which one half goes into a convolution and the other stays is the half that
// stays.
TEST(Origins, HalfFoldedNodesBelongToTheLiveHalf) {
  Net net;
  const ValueId y =
      net.batch_norm("bn", net.unary("relu", UnaryFn::kRelu, net.input("x", {1, 3, 5, 4})));
  net.output(net.conv("conv", y, 4, window2d(3, 1)));  // takes neither half: padded
  const Graph graph = simplified(net);
  EXPECT_THAT(origins_of({&graph, graph.node(graph.producer(result(graph).id)).input(0)}),
              ElementsAre("bn"));
}

// A chain of folds ends at the node that does the work.
TEST(Origins, FoldsAreFollowedToTheEnd) {
  Net net;
  const ValueId x = net.input("x", {1, 3, 8, 8});
  std::vector<ValueId> parts;
  for (const std::int64_t i : {0, 1}) {
    for (const std::int64_t j : {0, 1}) {
      const std::string id = std::to_string(i) + std::to_string(j);
      parts.push_back(net.slice("b" + id, net.slice("a" + id, x, 2, i, 8, 2), 3, j, 8, 2));
    }
  }
  const ValueId y = net.conv("conv", net.op("focus", Concat{1}, parts), 4, window2d(3));
  net.output(net.mul("mul", net.batch_norm("bn", y), net.scalar(2)));
  const Graph graph = simplified(net);
  EXPECT_EQ(node_count(graph), 1U);
  for (const std::string id : {"a00", "b11", "focus", "bn", "mul"})
    EXPECT_EQ(folded_into(graph, id), "conv") << id;
}

// Two live nodes for one model node: the last of them is accountable.
TEST(Origins, SettleKeepsEachOnce) {
  Net net;
  const ValueId a = net.unary("a", UnaryFn::kTanh, net.input("x", {2}));
  net.output(net.unary("b", UnaryFn::kExp, a));
  net.graph.node(0).origins = {"sum", "a"};
  net.graph.node(1).origins = {"b", "sum"};
  net.graph.folded = {{"sum", "a"}, {"old", "unused"}, {"old", "a"}};
  settle_origins(net.graph);
  EXPECT_THAT(net.graph.node(0).origins, ElementsAre("a"));
  EXPECT_THAT(net.graph.node(1).origins, ElementsAre("b", "sum"));
  ASSERT_EQ(net.graph.folded.size(), 1U);
  EXPECT_EQ(net.graph.folded[0].into, "a");
}

}  // namespace
}  // namespace braze::test
