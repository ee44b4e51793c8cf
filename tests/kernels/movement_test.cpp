// Families that only move elements, bit for bit, in every dtype and layout.
#include "base/error.hpp"
#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

constexpr DType kEverySize[] = {DType::kFloat32, DType::kFloat16, DType::kUInt8, DType::kInt64};
constexpr DType kEveryDType[] = {
    DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64, DType::kInt8,
    DType::kUInt8,   DType::kInt16,   DType::kUInt16,   DType::kInt32,   DType::kUInt32,
    DType::kInt64,   DType::kUInt64,  DType::kBool};

class Movement : public OnIsa {};

TEST_P(Movement, EveryDType) {
  for (const DType dtype : kEveryDType)
    check_node(transpose(), {Transpose{{0, 3, 1, 2}}, {counting_tensor(dtype, {2, 5, 6, 7}, 1)}});
}

TEST_P(Movement, Transpose) {
  const std::pair<Shape, Ints> cases[] = {
      {{}, {}},
      {{7}, {0}},
      {{33, 18}, {1, 0}},
      {{5, 4, 0}, {2, 1, 0}},
      {{2, 40, 15}, {0, 2, 1}},
      {{1, 24, 20, 20}, {0, 2, 3, 1}},
      {{2, 3, 17, 19}, {0, 2, 3, 1}},
      {{2, 6, 5, 8}, {3, 1, 0, 2}},
      {{2, 3, 4, 5, 6}, {0, 3, 4, 1, 2}},
      {{2, 2, 3, 2, 3, 5}, {5, 0, 4, 1, 3, 2}},
      {{1, 70, 33, 50}, {0, 3, 2, 1}},
  };
  for (const auto& [shape, perm] : cases) {
    for (const DType dtype : kEverySize)
      check_node(transpose(), {Transpose{perm}, {counting_tensor(dtype, shape, 2)}});
  }
}

TEST_P(Movement, DepthSpaceAndShuffle) {
  for (const DType dtype : kEverySize) {
    for (const bool crd : {false, true}) {
      check_node(transpose(), {DepthToSpace{2, crd}, {counting_tensor(dtype, {2, 12, 5, 6}, 3)}});
      check_node(transpose(), {DepthToSpace{3, crd}, {counting_tensor(dtype, {1, 9, 20, 31}, 3)}});
    }
    check_node(transpose(), {SpaceToDepth{2}, {counting_tensor(dtype, {2, 3, 8, 10}, 4)}});
    check_node(transpose(), {SpaceToDepth{3}, {counting_tensor(dtype, {1, 5, 6, 9}, 4)}});
    for (const std::int64_t groups : {1, 2, 3, 4}) {
      check_node(transpose(), {ChannelShuffle{groups}, {counting_tensor(dtype, {2, 24, 7, 9}, 5)}});
      check_node(transpose(), {ChannelShuffle{groups}, {counting_tensor(dtype, {1, 120, 3}, 5)}});
    }
  }
}

TEST_P(Movement, Concat) {
  for (const DType dtype : kEverySize) {
    for (const std::int64_t axis : {0, 1, 2, 3}) {
      Shape a = {2, 3, 4, 5}, b = a, c = a;
      b[static_cast<std::size_t>(axis)] = 7;
      c[static_cast<std::size_t>(axis)] = 0;
      const std::vector<Tensor> parts = {counting_tensor(dtype, a, 1), counting_tensor(dtype, b, 2),
                                         counting_tensor(dtype, c, 3),
                                         counting_tensor(dtype, a, 4)};
      check_node(concat(), {Concat{axis}, parts});
      check_node(concat(), {Concat{axis}, parts, {1}});
      check_node(concat(), {Concat{axis}, {parts[0]}});
    }
    check_node(concat(),
               {Concat{0}, {counting_tensor(dtype, {5}, 1), counting_tensor(dtype, {1}, 2)}});
  }
  // One value twice.
  OneNode twice(Concat{1}, {counting_tensor(DType::kFloat32, {1, 3, 4, 4}, 1),
                            counting_tensor(DType::kFloat32, {1, 3, 4, 4}, 2)});
  twice.graph.node(0).inputs[1] = twice.graph.node(0).inputs[0];
  twice.graph.touch();
  twice.graph.inputs.pop_back();
  twice.group.inputs.pop_back();
  twice.inputs.pop_back();
  check_node(concat(), twice);
}

TEST_P(Movement, Slice) {
  for (const DType dtype : kEverySize) {
    const Tensor x = counting_tensor(dtype, {2, 6, 9, 40}, 6);
    check_node(slice(), {Slice{{0, 0, 0, 0}, {2, 6, 9, 40}, {}, {1, 1, 1, 1}}, {x}});
    check_node(slice(), {Slice{{1, 2, 0, 3}, {2, 5, 9, 37}, {}, {1, 1, 1, 1}}, {x}});
    check_node(slice(), {Slice{{0, 0, 1, 0}, {2, 6, 9, 40}, {}, {1, 1, 2, 2}}, {x}});
    check_node(slice(), {Slice{{1, 5, 8, 39}, {-1, -1, -1, -1}, {}, {-1, -1, -2, -3}}, {x}});
    check_node(slice(), {Slice{{0, 4, 0, 0}, {2, 4, 9, 40}, {}, {1, 1, 1, 1}}, {x}});
    check_node(slice(), {Slice{{2}, {4}, {}, {1}}, {counting_tensor(dtype, {7}, 7)}});
    check_node(slice(), {Slice{{0, 0, 0, 0}, {2, 6, 9, 40}, {}, {1, 1, 1, 1}}, {x}, {0}});
  }
}

TEST_P(Movement, Split) {
  for (const DType dtype : kEverySize) {
    for (const std::int64_t axis : {0, 1, 2, 3}) {
      Shape shape = {2, 3, 4, 5};
      shape[static_cast<std::size_t>(axis)] = 9;
      check_node(slice(), {Split{axis, {4, 2, 0, 3}}, {counting_tensor(dtype, shape, 8)}, {}, 4});
    }
  }
  // A part that nobody reads is not stored.
  OneNode some(Split{1, {4, 2, 3}}, {counting_tensor(DType::kFloat32, {1, 9, 4, 4}, 1)}, {}, 3);
  some.group.outputs.erase(some.group.outputs.begin() + 1);
  some.graph.outputs.erase(some.graph.outputs.begin() + 1);
  check_node(slice(), some);
}

TEST_P(Movement, Pad) {
  for (const PadMode mode :
       {PadMode::kConstant, PadMode::kReflect, PadMode::kEdge, PadMode::kWrap}) {
    for (const DType dtype : kEverySize) {
      const Tensor x = counting_tensor(dtype, {2, 3, 6, 20}, 9);
      check_node(slice(), {Pad{mode, {0, 0, 1, 2, 0, 0, 3, 0}, 5}, {x}});
      check_node(slice(), {Pad{mode, {0, 1, 0, 0, 0, 2, 0, 0}, 5}, {x}});
      check_node(slice(), {Pad{mode, {1, 0, -1, 4, 0, 2, 2, -3}, 7}, {x}});
      check_node(slice(), {Pad{mode, {0, 0, 0, 0, 0, 0, 0, 0}, 7}, {x}});
      check_node(slice(), {Pad{mode, {4, 3}, 1}, {counting_tensor(dtype, {5}, 1)}});
    }
  }
  check_node(slice(), {Pad{PadMode::kConstant, {1, 2, 3, 0}, 2.5}, {random_tensor({2, 0}, 1)}});
}

TEST_P(Movement, PadsLongerThanTheInput) {
  for (const PadMode mode : {PadMode::kReflect, PadMode::kEdge, PadMode::kWrap}) {
    check_node(slice(), {Pad{mode, {7, 12}}, {random_tensor({3}, 1)}});
    check_node(slice(), {Pad{mode, {2, 3}}, {random_tensor({1}, 1)}});
  }
}

TEST_P(Movement, ExpandAndTile) {
  for (const DType dtype : kEverySize) {
    check_node(slice(), {Expand{{2, 3, 4, 20}}, {counting_tensor(dtype, {3, 1, 20}, 1)}});
    check_node(slice(), {Expand{{2, 3, 4, 20}}, {counting_tensor(dtype, {1, 3, 1, 1}, 1)}});
    check_node(slice(), {Expand{{4, 5}}, {counting_tensor(dtype, {}, 1)}});
    check_node(slice(), {Expand{{0, 5}}, {counting_tensor(dtype, {1, 5}, 1)}});
    check_node(slice(), {braze::Tile{{1, 2, 3, 2}}, {counting_tensor(dtype, {2, 3, 4, 5}, 1)}});
    check_node(slice(), {braze::Tile{{3}}, {counting_tensor(dtype, {7}, 1)}});
    check_node(slice(), {braze::Tile{{2, 0}}, {counting_tensor(dtype, {7, 2}, 1)}});
  }
}

TEST_P(Movement, Gather) {
  for (const DType dtype : kEverySize) {
    for (const std::int64_t axis : {0, 1, 2}) {
      const Tensor x = counting_tensor(dtype, {5, 6, 7}, 1);
      for (const DType index : {DType::kInt32, DType::kInt64}) {
        const Tensor indices = make_tensor<double>(index, {2, 3}, {0, 4, -1, -5, 2, 2});
        check_node(gather(), {Gather{axis}, {x, indices}});
        check_node(gather(), {Gather{axis}, {x, indices}, {1}});
        check_node(gather(), {Gather{axis}, {x, indices}, {0}});
        check_node(gather(), {Gather{axis}, {x, make_tensor<double>(index, {}, {3})}, {1}});
      }
    }
  }
  check_node(gather(), {Gather{0},
                        {random_tensor({300, 1000}, 1),
                         make_tensor<double>(DType::kInt64, {4}, {299, 0, 7, 7})}});
}

/// A group without members copies its input; Identity and Reshape are such groups too.
TEST_P(Movement, Relayout) {
  for (const DType dtype : kEverySize) {
    for (const Shape& shape :
         {Shape{2, 40, 13, 11}, Shape{1, 3, 37, 41}, Shape{1, 1, 9, 9}, Shape{2, 17, 1, 1},
          Shape{2, 5, 33}, Shape{1, 20, 3, 4, 5}, Shape{1, 65, 40, 41}}) {
      check_node(relayout(), {Identity{}, {counting_tensor(dtype, shape, 1)}});
      OneNode bare(Identity{}, {counting_tensor(dtype, shape, 1)});
      const std::vector<Tensor> want = interpret(bare.graph, bare.inputs);
      bare.group.members.clear();
      const Plan plan = one_kernel_plan(bare.graph, relayout(), bare.group,
                                        {{bare.group.outputs[0], {Layout::kChannelsLast, 2}}});
      expect_same(run_kernel(plan, relayout(), bare.inputs)[0], want[0]);
    }
    check_node(relayout(), {Reshape{{2, 6, 20}}, {counting_tensor(dtype, {2, 6, 4, 5}, 1)}});
    check_node(relayout(), {Reshape{{2, 2, 3, 4, 5}}, {counting_tensor(dtype, {2, 6, 4, 5}, 1)}});
    check_node(relayout(), {Reshape{{8, 5, 6}}, {counting_tensor(dtype, {2, 6, 4, 5}, 1)}});
    check_node(relayout(), {Reshape{{240}}, {counting_tensor(dtype, {2, 6, 4, 5}, 1)}});
    check_node(relayout(), {Reshape{{0, 5, 1}}, {counting_tensor(dtype, {5, 0}, 1)}});
  }
}

BRAZE_ON_EVERY_ISA(Movement);

TEST(Reference, RunsAnyNode) {
  check_node(reference(), {Transpose{{1, 0}}, {counting_tensor(DType::kFloat64, {3, 4}, 1)}});
  check_node(reference(), {Concat{0}, {random_tensor({3, 4}, 1), random_tensor({2, 4}, 2)}, {1}});
  check_node(reference(), {Split{1, {1, 3}}, {random_tensor({3, 4}, 1)}, {}, 2});
  check_node(reference(), {Unary{UnaryFn::kCeil}, {random_tensor({1, 3, 4, 4}, 1)}});
}

TEST(Registry, ListsEachFamilyOnce) {
  std::vector<std::string_view> names;
  for (const Row& row : rows()) names.push_back(row.family.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  for (const Row& row : rows()) {
    EXPECT_EQ(builder(row.family.name), row.build) << row.family.name;
    EXPECT_EQ(row.family.backend, "cpu");
  }
  EXPECT_EQ(rows().back().family.name, "reference");
  EXPECT_THROW(builder("no such family"), Exception);
}

}  // namespace
}  // namespace braze::cpu::testing
