// Matrix products on a GPU against the interpreter.
#include "kernels_cuda/twin.hpp"

namespace braze::cuda::testing {
namespace {

struct Kind {
  const char* name;
  DType dtype;
  int sm;
  bool tf32;
};

class GemmCuda : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { BRAZE_NEEDS_EMULATOR(); }
  static Device device() {
    Device device = cuda_device(GetParam().sm);
    device.tf32 = GetParam().tf32;
    return device;
  }
  static DType dtype() { return GetParam().dtype; }

  /// A product of two operands, each a constant or not, and something after it.
  static void multiply(const Shape& a, const Shape& b, int constants, int only = 0) {
    SCOPED_TRACE(::testing::Message() << "constants " << constants << ", candidate " << only);
    Twin twin(dtype(), static_cast<unsigned>(a.back() + constants));
    const ValueId left =
        (constants & 1) != 0 ? twin.constant(twin.values(a)) : twin.input(twin.values(a));
    const ValueId right =
        (constants & 2) != 0 ? twin.constant(twin.values(b)) : twin.input(twin.values(b));
    twin.anchor(MatMul{}, {left, right});
    twin.magnitude = 4.0 * static_cast<double>(a.back());
    twin.then(BinaryFn::kAdd, twin.input(twin.values(twin.shape())));
    twin.then(Unary{UnaryFn::kRelu});
    twin.store_as(dtype());
    twin.check(gemm_cuda(), device(), only);
  }
};

TEST_P(GemmCuda, Matrices) {
  multiply({70, 48}, {48, 40}, 2, -1);
  multiply({9, 33}, {33, 17}, 0);
  multiply({9, 33}, {33, 20}, 1);
  multiply({1, 256}, {256, 40}, 2, -1);
}

TEST_P(GemmCuda, BatchesBroadcast) {
  multiply({3, 10, 24}, {24, 16}, 2);
  multiply({3, 10, 24}, {3, 24, 16}, 0);
  multiply({2, 1, 10, 24}, {3, 24, 9}, 0, 1);
  multiply({2, 3, 5, 16}, {2, 1, 16, 8}, 2);
  multiply({10, 16}, {3, 16, 8}, 1);
}

TEST_P(GemmCuda, Vectors) {
  multiply({24}, {24, 18}, 2);
  multiply({20, 24}, {24}, 0);
  multiply({2, 7, 24}, {24}, 2);
  multiply({24}, {3, 24, 7}, 0);
}

TEST_P(GemmCuda, EveryFormOfGemm) {
  std::mt19937 random(3);
  const Shape addends[] = {{}, {40}, {21, 1}, {1}, {21, 40}, {1, 40}};
  for (int form = 0; form < 12; ++form) {
    SCOPED_TRACE(form);
    const bool trans_a = form % 2 != 0, trans_b = form / 2 % 2 != 0;
    Twin twin(dtype(), static_cast<unsigned>(form + 1));
    Gemm gemm;
    gemm.trans_a = trans_a;
    gemm.trans_b = trans_b;
    gemm.alpha = form % 3 == 0 ? 1 : 0.5;
    gemm.beta = form % 4 == 0 ? 1 : 0.25;
    const ValueId a = twin.input(twin.values(trans_a ? Shape{32, 21} : Shape{21, 32}),
                                 form % 5 == 4 ? DType::kFloat32 : dtype());
    const Tensor values = twin.values(trans_b ? Shape{40, 32} : Shape{32, 40});
    const ValueId b = form < 6 ? twin.constant(values) : twin.input(values);
    std::vector<ValueId> ids{a, b};
    const Shape& c = addends[form % 6];
    if (!c.empty())
      ids.push_back(form % 3 == 1 ? twin.input(twin.values(c)) : twin.constant(twin.values(c)));
    twin.anchor(gemm, ids);
    twin.magnitude = 4.0 * 32;
    twin.store_as(form % 4 == 3 ? DType::kFloat32 : dtype());
    twin.check(gemm_cuda(), device(), form);
  }
}

TEST_P(GemmCuda, EmptyDepthIsZero) {
  Twin twin(dtype());
  twin.anchor(MatMul{}, {twin.input(twin.values({5, 0})), twin.input(twin.values({0, 6}))});
  twin.then(BinaryFn::kAdd, twin.constant(twin.values({6})));
  twin.check(gemm_cuda(), device());
}

INSTANTIATE_TEST_SUITE_P(Kinds, GemmCuda,
                         ::testing::Values(Kind{"sm80_float16", DType::kFloat16, 80, false},
                                           Kind{"sm90_bfloat16", DType::kBFloat16, 90, false},
                                           Kind{"sm80_tf32", DType::kFloat32, 80, true},
                                           Kind{"sm70_float16", DType::kFloat16, 70, false},
                                           Kind{"sm75_bfloat16", DType::kBFloat16, 75, false},
                                           Kind{"sm89_float", DType::kFloat32, 89, false}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace braze::cuda::testing
