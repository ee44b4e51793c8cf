#include "graph/legality.hpp"

#include <fmt/format.h>

#include <iterator>
#include <limits>

namespace braze::graph {
namespace {

using DTypes = std::uint32_t;  // a set

constexpr DTypes set_of(DType dtype) { return 1U << static_cast<unsigned>(dtype); }
constexpr DTypes kFloats = set_of(DType::kFloat32) | set_of(DType::kFloat16) |
                           set_of(DType::kBFloat16) | set_of(DType::kFloat64);
constexpr DTypes kBytes = set_of(DType::kInt8) | set_of(DType::kUInt8);
constexpr DTypes kQuantized =
    kBytes | set_of(DType::kInt16) | set_of(DType::kUInt16) | set_of(DType::kInt32);
constexpr DTypes kAny = (1U << (static_cast<unsigned>(DType::kBool) + 1)) - 1;
constexpr DTypes kNumbers = kAny & ~set_of(DType::kBool);
constexpr DTypes kIndices = set_of(DType::kInt32) | set_of(DType::kInt64);

constexpr int kMany = std::numeric_limits<int>::max();
constexpr int kNever = -1;  // no node of this kind is left once resolved

struct Row {
  OpKind kind;
  int min_inputs;   // the first min_inputs must be there
  int read_inputs;  // at most, in a model
  int inputs;       // at most, once resolved
  int outputs;      // at most
  DTypes dtypes;    // of input 0
};

constexpr Row kTable[] = {
    {OpKind::kUnary, 1, 1, 1, 1, kAny},
    {OpKind::kClip, 1, 3, kNever, 1, kNumbers},
    {OpKind::kBinary, 2, 2, 2, 1, kAny},
    {OpKind::kWhere, 3, 3, 3, 1, set_of(DType::kBool)},
    {OpKind::kCast, 1, 1, 1, 1, kAny},
    {OpKind::kIdentity, 1, 1, 1, 1, kAny},
    {OpKind::kConv, 2, 3, 3, 1, kFloats},
    {OpKind::kConvTranspose, 2, 3, 3, 1, kFloats},
    {OpKind::kQLinearConv, 8, 9, 9, 1, kBytes},
    {OpKind::kQuantize, 2, 3, 3, 1, kFloats | set_of(DType::kInt32)},
    {OpKind::kDequantize, 2, 3, 3, 1, kQuantized},
    {OpKind::kMatMul, 2, 2, 2, 1, kNumbers},
    {OpKind::kGemm, 2, 3, 3, 1, kNumbers},
    {OpKind::kBatchNorm, 5, 5, 5, 1, kFloats},
    {OpKind::kInstanceNorm, 3, 3, 3, 1, kFloats},
    {OpKind::kLrn, 1, 1, 1, 1, kFloats},
    {OpKind::kSoftmax, 1, 1, 1, 1, kFloats},
    {OpKind::kPool, 1, 1, 1, 2, kFloats | kBytes},
    {OpKind::kReduce, 1, 2, 1, 1, kAny},
    {OpKind::kArgReduce, 1, 1, 1, 1, kNumbers},
    {OpKind::kConcat, 1, kMany, kMany, 1, kAny},
    {OpKind::kSplit, 1, 2, 1, kMany, kAny},
    {OpKind::kSlice, 1, 5, 1, 1, kAny},
    {OpKind::kPad, 1, 4, 1, 1, kAny},
    {OpKind::kReshape, 1, 2, 1, 1, kAny},
    {OpKind::kFlatten, 1, 1, kNever, 1, kAny},
    {OpKind::kSqueeze, 1, 2, kNever, 1, kAny},
    {OpKind::kUnsqueeze, 1, 2, kNever, 1, kAny},
    {OpKind::kTranspose, 1, 1, 1, 1, kAny},
    {OpKind::kShapeOf, 1, 1, kNever, 1, kAny},
    {OpKind::kSizeOf, 1, 1, kNever, 1, kAny},
    {OpKind::kGather, 2, 2, 2, 1, kAny},
    {OpKind::kExpand, 1, 2, 1, 1, kAny},
    {OpKind::kTile, 1, 2, 1, 1, kAny},
    {OpKind::kConstantOfShape, 1, 1, 1, 1, kIndices},
    {OpKind::kRange, 3, 3, 3, 1, kNumbers},
    {OpKind::kResize, 1, 4, 1, 1, kNumbers},
    {OpKind::kDepthToSpace, 1, 1, 1, 1, kAny},
    {OpKind::kSpaceToDepth, 1, 1, 1, 1, kAny},
    {OpKind::kChannelShuffle, 1, 1, 1, 1, kAny},
};

constexpr bool table_is_complete() {
  if (std::size(kTable) != std::variant_size_v<Attributes>) return false;
  for (std::size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<std::size_t>(kTable[i].kind) != i) return false;
  }
  return true;
}
static_assert(table_is_complete(), "one row per operator, in the order of BRAZE_OPS");

}  // namespace

std::string illegal(const Graph& graph, const Node& node, Form form) {
  const Row& row = kTable[node.op.index()];
  const int most = form == Form::kRead ? row.read_inputs : row.inputs;
  if (most == kNever) return "is not resolved";
  const auto inputs = static_cast<int>(node.inputs.size());
  if (inputs < row.min_inputs || inputs > most) {
    return fmt::format("has {} inputs, expected {} to {}", inputs, row.min_inputs, most);
  }
  for (int i = 0; i < inputs; ++i) {
    const ValueId input = node.inputs[static_cast<std::size_t>(i)];
    const bool needed = i < row.min_inputs || most == kMany;
    if (input == kNoValue && needed) return fmt::format("input {} is absent", i);
    if (input >= graph.value_count()) return fmt::format("input {} is no value of the graph", i);
  }
  const auto outputs = static_cast<int>(node.outputs.size());
  if (outputs < 1 || outputs > row.outputs) {
    return fmt::format("has {} outputs, expected 1 to {}", outputs, row.outputs);
  }
  const Value& x = graph.value(node.inputs[0]);
  if ((row.dtypes & set_of(x.dtype)) == 0) {
    return fmt::format("does not take '{}' of dtype {}", x.name, to_string(x.dtype));
  }
  return "";
}

}  // namespace braze::graph
