#include "kernels_cuda/one_kernel.hpp"

namespace braze::cuda::testing {
namespace {

constexpr DType kBySize[] = {DType::kUInt8, DType::kFloat16, DType::kFloat32, DType::kInt64};

TEST(CudaCopies, RelayoutsBetweenAllLayouts) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const DType dtype : kBySize) {
    for (const Shape& shape : {Shape{2, 40, 9, 11}, Shape{1, 3, 20, 17}, Shape{2, 24, 50}}) {
      check_node(relayout(), OneNode(Identity{}, {counting_tensor(dtype, shape, seed++)}));
      if (HasFailure()) return;
    }
  }
}

TEST(CudaCopies, RelayoutThatConverts) {
  BRAZE_NEEDS_EMULATOR();
  // The group's input is what its Cast reads.
  Graph graph;
  const Tensor x = random_floats(DType::kFloat32, {2, 40, 9, 11}, 1);
  const ValueId in = graph.add_value("in", DType::kFloat32, x.shape());
  const ValueId half = graph.add_value("half"), out = graph.add_value("out");
  graph.inputs = {in};
  graph.value(in).known_rank = true;
  const NodeId cast_node = graph.add_node(Cast{DType::kFloat16}, {in}, {half}, "cast", {"cast"});
  set_types(graph, cast_node);
  const NodeId node = graph.add_node(Identity{}, {half}, {out}, "copy", {"copy"});
  set_types(graph, node);
  graph.outputs = {{"out", out}};
  Group group;
  group.members.push_back({node, {}, out});
  group.inputs = {in};
  group.casts = {cast_node};
  group.outputs = {out};
  for (const Layout layout : {Layout::kModel, Layout::kChannelsLast}) {
    const Plan plan = one_kernel_plan(graph, relayout(), group, {{out, {layout, 0}}});
    const std::vector<Tensor> got = run_on_gpu(plan, relayout(), std::vector<Tensor>{x});
    expect_same(got[0], cast(x, DType::kFloat16));
  }
}

TEST(CudaCopies, Reshapes) {
  BRAZE_NEEDS_EMULATOR();
  check_node(
      relayout(),
      OneNode(Reshape{{2, 6, 4, 10}, false}, {counting_tensor(DType::kFloat32, {2, 24, 10}, 1)}),
      expect_same, 8);
  check_node(
      relayout(),
      OneNode(Reshape{{4, 6, 10}, false}, {counting_tensor(DType::kFloat16, {2, 4, 6, 5}, 1)}),
      expect_same, 8);
}

TEST(CudaCopies, Concat) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const std::int64_t axis : {0, 1, 2, 3}) {
    for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
      std::vector<Tensor> parts;
      for (const std::int64_t extent : {16, 24, 8}) {
        Shape shape = {2, 16, 8, 8};
        shape[static_cast<std::size_t>(axis)] = extent;
        parts.push_back(counting_tensor(dtype, shape, seed++));
      }
      check_node(concat(), OneNode(Concat{axis}, parts), expect_same, 3, seed);
      if (HasFailure()) return;
    }
  }
  check_node(concat(), OneNode(Concat{0}, {counting_tensor(DType::kInt64, {1}, 1),
                                           counting_tensor(DType::kInt64, {3}, 2)}));
}

TEST(CudaCopies, Permutations) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const Ints& perm :
       {Ints{0, 2, 3, 1}, Ints{0, 3, 1, 2}, Ints{3, 2, 1, 0}, Ints{1, 0, 3, 2}}) {
    check_node(
        transpose(),
        OneNode(Transpose{perm}, {counting_tensor(kBySize[seed % 4], {2, 18, 20, 33}, seed)}),
        expect_same, 3, seed);
    ++seed;
  }
  check_node(transpose(),
             OneNode(Transpose{{1, 0}}, {counting_tensor(DType::kFloat32, {70, 45}, 3)}));
  for (const bool crd : {false, true}) {
    check_node(transpose(),
               OneNode(DepthToSpace{2, crd}, {counting_tensor(DType::kFloat16, {2, 32, 3, 5}, 1)}));
  }
  check_node(transpose(),
             OneNode(SpaceToDepth{2}, {counting_tensor(DType::kFloat32, {2, 8, 6, 4}, 1)}));
  check_node(transpose(),
             OneNode(ChannelShuffle{4}, {counting_tensor(DType::kFloat16, {2, 32, 3, 5}, 1)}));
}

TEST(CudaCopies, BoxesOfTheInput) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const DType dtype : kBySize) {
    const Tensor x = counting_tensor(dtype, {2, 32, 9, 7}, seed++);
    check_node(slice(), OneNode(Slice{{0, 8, 1, 6}, {2, 24, 9, 0}, {}, {1, 1, 3, -2}}, {x}),
               expect_same, 3, seed);
    check_node(slice(), OneNode(Split{1, {8, 16, 8}}, {x}, {}, 3), expect_same, 2, seed);
    check_node(slice(),
               OneNode(Expand{{3, 2, 32, 5, 7}}, {counting_tensor(dtype, {2, 32, 1, 7}, seed)}),
               expect_same, 2);
    check_node(slice(), OneNode(Tile{{2, 1, 3, 2}}, {counting_tensor(dtype, {1, 8, 3, 5}, seed)}),
               expect_same, 2);
    if (HasFailure()) return;
  }
}

TEST(CudaCopies, Pads) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const PadMode mode :
       {PadMode::kConstant, PadMode::kReflect, PadMode::kEdge, PadMode::kWrap}) {
    for (const Ints& pads : {Ints{0, 0, 1, 2, 0, 0, 3, 0}, Ints{0, 8, 0, -1, 1, 0, -1, 2}}) {
      const DType dtype = kBySize[seed % 4];
      check_node(pad(), OneNode(Pad{mode, pads, 5}, {counting_tensor(dtype, {2, 16, 5, 6}, seed)}),
                 expect_same, 3, seed);
      ++seed;
      if (HasFailure()) return;
    }
  }
}

TEST(CudaCopies, Gathers) {
  BRAZE_NEEDS_EMULATOR();
  for (const DType dtype : kBySize) {
    const Tensor x = counting_tensor(dtype, {3, 5, 8}, 1);
    for (const std::int64_t axis : {0, 1, 2}) {
      const Tensor wide = make_tensor<std::int64_t>(DType::kInt64, {2, 2}, {0, 2, -1, 1});
      const Tensor narrow = make_tensor<std::int64_t>(DType::kInt32, {}, {-2});
      check_node(gather(), OneNode(Gather{axis}, {x, wide}));
      check_node(gather(), OneNode(Gather{axis}, {x, narrow}, {1}));
    }
  }
}

}  // namespace
}  // namespace braze::cuda::testing
