#include "model/ops/registry.hpp"

#include <algorithm>
#include <iterator>

#include "model/ops/readers.hpp"

namespace braze::model {
namespace {

constexpr int kOld = kFirstOpset;
constexpr int kNow = kLastOpset;

using U = UnaryFn;
using B = BinaryFn;
using R = ReduceFn;

/// Name, first and last opset, inputs at least and at most, outputs at most, reader. In the order
/// of the alphabet.
constexpr OpRow kOps[] = {
    {"Abs", kOld, kNow, 1, 1, 1, read_plain_unary<U::kAbs>},
    {"Add", kOld, kNow, 2, 2, 1, read_plain_binary<B::kAdd>},
    {"And", kOld, kNow, 2, 2, 1, read_plain_binary<B::kAnd>},
    {"ArgMax", kOld, kNow, 1, 1, 1, read_arg_max},
    {"ArgMin", kOld, kNow, 1, 1, 1, read_arg_min},
    {"AveragePool", kOld, kNow, 1, 1, 1, read_average_pool},
    {"BatchNormalization", kOld, kNow, 5, 5, 5, read_batch_normalization},
    {"Cast", kOld, kNow, 1, 1, 1, read_cast},
    {"CastLike", 15, kNow, 2, 2, 1, read_cast_like},
    {"Ceil", kOld, kNow, 1, 1, 1, read_plain_unary<U::kCeil>},
    {"Celu", 12, kNow, 1, 1, 1, read_celu},
    {"Clip", kOld, kNow, 1, 3, 1, read_clip},
    {"Concat", kOld, kNow, 1, kMany, 1, read_concat},
    {"Constant", kOld, kNow, 0, 0, 1, read_constant},
    {"ConstantOfShape", 9, kNow, 1, 1, 1, read_constant_of_shape},
    {"Conv", kOld, kNow, 2, 3, 1, read_conv},
    {"ConvTranspose", kOld, kNow, 2, 3, 1, read_conv_transpose},
    {"Cos", kOld, kNow, 1, 1, 1, read_plain_unary<U::kCos>},
    {"DepthToSpace", kOld, kNow, 1, 1, 1, read_depth_to_space},
    {"DequantizeLinear", 10, kNow, 2, 3, 1, read_dequantize_linear},
    {"Div", kOld, kNow, 2, 2, 1, read_plain_binary<B::kDiv>},
    {"Dropout", kOld, kNow, 1, 3, 2, read_dropout},
    {"Elu", kOld, kNow, 1, 1, 1, read_elu},
    {"Equal", kOld, kNow, 2, 2, 1, read_plain_binary<B::kEqual>},
    {"Erf", 9, kNow, 1, 1, 1, read_plain_unary<U::kErf>},
    {"Exp", kOld, kNow, 1, 1, 1, read_plain_unary<U::kExp>},
    {"Expand", 8, kNow, 2, 2, 1, read_expand},
    {"Flatten", kOld, kNow, 1, 1, 1, read_flatten},
    {"Floor", kOld, kNow, 1, 1, 1, read_plain_unary<U::kFloor>},
    {"Gather", kOld, kNow, 2, 2, 1, read_gather},
    {"Gelu", 20, kNow, 1, 1, 1, read_gelu},
    {"Gemm", kOld, kNow, 2, 3, 1, read_gemm},
    {"GlobalAveragePool", kOld, kNow, 1, 1, 1, read_global_average_pool},
    {"GlobalMaxPool", kOld, kNow, 1, 1, 1, read_global_max_pool},
    {"Greater", kOld, kNow, 2, 2, 1, read_plain_binary<B::kGreater>},
    {"GreaterOrEqual", 12, kNow, 2, 2, 1, read_plain_binary<B::kGreaterOrEqual>},
    {"HardSigmoid", kOld, kNow, 1, 1, 1, read_hard_sigmoid},
    {"HardSwish", 14, kNow, 1, 1, 1, read_plain_unary<U::kHardSwish>},
    {"Identity", kOld, kNow, 1, 1, 1, read_identity},
    {"InstanceNormalization", kOld, kNow, 3, 3, 1, read_instance_normalization},
    {"IsNaN", 9, kNow, 1, 1, 1, read_plain_unary<U::kIsNaN>},
    {"LRN", kOld, kNow, 1, 1, 1, read_lrn},
    {"LeakyRelu", kOld, kNow, 1, 1, 1, read_leaky_relu},
    {"Less", kOld, kNow, 2, 2, 1, read_plain_binary<B::kLess>},
    {"LessOrEqual", 12, kNow, 2, 2, 1, read_plain_binary<B::kLessOrEqual>},
    {"Log", kOld, kNow, 1, 1, 1, read_plain_unary<U::kLog>},
    {"LogSoftmax", kOld, kNow, 1, 1, 1, read_log_softmax},
    {"MatMul", kOld, kNow, 2, 2, 1, read_matmul},
    {"Max", kOld, kNow, 1, kMany, 1, read_max},
    {"MaxPool", kOld, kNow, 1, 1, 2, read_max_pool},
    {"Mean", kOld, kNow, 1, kMany, 1, read_mean},
    {"Min", kOld, kNow, 1, kMany, 1, read_min},
    {"Mish", 18, kNow, 1, 1, 1, read_plain_unary<U::kMish>},
    {"Mod", 10, kNow, 2, 2, 1, read_mod},
    {"Mul", kOld, kNow, 2, 2, 1, read_plain_binary<B::kMul>},
    {"Neg", kOld, kNow, 1, 1, 1, read_plain_unary<U::kNeg>},
    {"Not", kOld, kNow, 1, 1, 1, read_plain_unary<U::kNot>},
    {"Or", kOld, kNow, 2, 2, 1, read_plain_binary<B::kOr>},
    {"PRelu", kOld, kNow, 2, 2, 1, read_plain_binary<B::kPRelu>},
    {"Pad", kOld, kNow, 1, 4, 1, read_pad},
    {"Pow", kOld, kNow, 2, 2, 1, read_plain_binary<B::kPow>},
    {"QLinearConv", 10, kNow, 8, 9, 1, read_qlinear_conv},
    {"QuantizeLinear", 10, kNow, 2, 3, 1, read_quantize_linear},
    {"Range", 11, kNow, 3, 3, 1, read_range},
    {"Reciprocal", kOld, kNow, 1, 1, 1, read_plain_unary<U::kReciprocal>},
    {"ReduceL1", kOld, kNow, 1, 2, 1, read_reduce<R::kL1>},
    {"ReduceL2", kOld, kNow, 1, 2, 1, read_reduce<R::kL2>},
    {"ReduceLogSum", kOld, kNow, 1, 2, 1, read_reduce<R::kLogSum>},
    {"ReduceLogSumExp", kOld, kNow, 1, 2, 1, read_reduce<R::kLogSumExp>},
    {"ReduceMax", kOld, kNow, 1, 2, 1, read_reduce<R::kMax>},
    {"ReduceMean", kOld, kNow, 1, 2, 1, read_reduce<R::kMean>},
    {"ReduceMin", kOld, kNow, 1, 2, 1, read_reduce<R::kMin>},
    {"ReduceProd", kOld, kNow, 1, 2, 1, read_reduce<R::kProd>},
    {"ReduceSum", kOld, kNow, 1, 2, 1, read_reduce<R::kSum, 13>},
    {"ReduceSumSquare", kOld, kNow, 1, 2, 1, read_reduce<R::kSumSquare>},
    {"Relu", kOld, kNow, 1, 1, 1, read_plain_unary<U::kRelu>},
    {"Reshape", kOld, kNow, 2, 2, 1, read_reshape},
    {"Resize", 10, kNow, 1, 4, 1, read_resize},
    {"Round", 11, kNow, 1, 1, 1, read_plain_unary<U::kRound>},
    {"Selu", kOld, kNow, 1, 1, 1, read_selu},
    {"Shape", kOld, kNow, 1, 1, 1, read_shape},
    {"Sigmoid", kOld, kNow, 1, 1, 1, read_plain_unary<U::kSigmoid>},
    {"Sign", 9, kNow, 1, 1, 1, read_plain_unary<U::kSign>},
    {"Sin", kOld, kNow, 1, 1, 1, read_plain_unary<U::kSin>},
    {"Size", kOld, kNow, 1, 1, 1, read_size},
    {"Slice", kOld, kNow, 1, 5, 1, read_slice},
    {"Softmax", kOld, kNow, 1, 1, 1, read_softmax},
    {"Softplus", kOld, kNow, 1, 1, 1, read_plain_unary<U::kSoftplus>},
    {"Softsign", kOld, kNow, 1, 1, 1, read_plain_unary<U::kSoftsign>},
    {"SpaceToDepth", kOld, kNow, 1, 1, 1, read_space_to_depth},
    {"Split", kOld, kNow, 1, 2, kMany, read_split},
    {"Sqrt", kOld, kNow, 1, 1, 1, read_plain_unary<U::kSqrt>},
    {"Squeeze", kOld, kNow, 1, 2, 1, read_squeeze},
    {"Sub", kOld, kNow, 2, 2, 1, read_plain_binary<B::kSub>},
    {"Sum", kOld, kNow, 1, kMany, 1, read_sum},
    {"Tanh", kOld, kNow, 1, 1, 1, read_plain_unary<U::kTanh>},
    {"ThresholdedRelu", 10, kNow, 1, 1, 1, read_thresholded_relu},
    {"Tile", kOld, kNow, 2, 2, 1, read_tile},
    {"Transpose", kOld, kNow, 1, 1, 1, read_transpose},
    {"Unsqueeze", kOld, kNow, 1, 2, 1, read_unsqueeze},
    {"Upsample", kOld, 9, 1, 2, 1, read_upsample},
    {"Where", 9, kNow, 3, 3, 1, read_where},
    {"Xor", kOld, kNow, 2, 2, 1, read_plain_binary<B::kXor>},
};

constexpr bool by_name(const OpRow& a, const OpRow& b) { return a.name < b.name; }
static_assert(std::is_sorted(std::begin(kOps), std::end(kOps), by_name));

}  // namespace

const OpRow* find_op(std::string_view name) {
  const auto* const row =
      std::lower_bound(std::begin(kOps), std::end(kOps), name,
                       [](const OpRow& op, std::string_view sought) { return op.name < sought; });
  return row != std::end(kOps) && row->name == name ? row : nullptr;
}

}  // namespace braze::model
