#include "exec/op_json.hpp"

#include <type_traits>

#include "graph/fields.hpp"

namespace braze {

template <>
inline constexpr UnaryFn kLast<UnaryFn> = UnaryFn::kIsNaN;
template <>
inline constexpr BinaryFn kLast<BinaryFn> = BinaryFn::kXor;
template <>
inline constexpr AutoPad kLast<AutoPad> = AutoPad::kSameLower;
template <>
inline constexpr PoolFn kLast<PoolFn> = PoolFn::kAverage;
template <>
inline constexpr ReduceFn kLast<ReduceFn> = ReduceFn::kSumSquare;
template <>
inline constexpr PadMode kLast<PadMode> = PadMode::kWrap;
template <>
inline constexpr ResizeMode kLast<ResizeMode> = ResizeMode::kCubic;
template <>
inline constexpr CoordinateMode kLast<CoordinateMode> = CoordinateMode::kTfCropAndResize;
template <>
inline constexpr NearestMode kLast<NearestMode> = NearestMode::kCeil;
template <>
inline constexpr AspectPolicy kLast<AspectPolicy> = AspectPolicy::kNotSmaller;

namespace {

template <class Op>
void write_fields(Json& json, const Op& op, BlobWriter& blobs) {
  for_each_field(op, [&](const char* name, const auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, Window>) {
      write_fields(json[name] = Json::object(), value, blobs);
    } else if constexpr (std::is_same_v<T, Tensor>) {
      json[name] = {{"dtype", static_cast<int>(value.dtype())},
                    {"shape", value.shape()},
                    {"defined", value.defined()},
                    {"offset", value.defined() ? blobs.add(value) : 0}};
    } else if constexpr (std::is_enum_v<T>) {
      json[name] = static_cast<int>(value);
    } else {
      json[name] = value;
    }
  });
}

template <class Op>
Op read_fields(const Json& json, const BlobReader& blobs) {
  Op op;
  for_each_field(op, [&](const char* name, auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, Window>) {
      value = read_fields<Window>(member(json, name), blobs);
    } else if constexpr (std::is_same_v<T, Tensor>) {
      const Json& tensor = member(json, name);
      if (get<bool>(tensor, "defined"))
        value = blobs.tensor(get<DType>(tensor, "dtype"), get<Shape>(tensor, "shape"),
                             get<std::int64_t>(tensor, "offset"));
    } else {
      read(member(json, name), name, value);
    }
  });
  return op;
}

}  // namespace

Json to_json(const Attributes& op, BlobWriter& blobs) {
  Json json = {{"kind", to_string(static_cast<OpKind>(op.index()))}};
  std::visit([&](const auto& attributes) { write_fields(json, attributes, blobs); }, op);
  return json;
}

Attributes read_op(const Json& json, const BlobReader& blobs) {
  const auto kind = get<std::string>(json, "kind");
#define BRAZE_READ(Name) \
  if (kind == #Name) return read_fields<Name>(json, blobs);
  BRAZE_OPS(BRAZE_READ)
#undef BRAZE_READ
  fail(ErrorCode::kModelInvalid, "there is no operator '{}'", kind);
}

}  // namespace braze
