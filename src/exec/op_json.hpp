// Operators as JSON: the kind's name and its attributes by name, after graph/fields.hpp.
#pragma once

#include "exec/blobs.hpp"
#include "exec/json.hpp"
#include "graph/op.hpp"

namespace braze {

template <>
inline constexpr DType kLast<DType> = DType::kBool;

/// {"kind": "Conv", "window": {...}, "group": 1}; attributes that are tensors go to `blobs`.
Json to_json(const Attributes& op, BlobWriter& blobs);
/// The inverse. kModelInvalid naming the attribute that is missing, of another type or out of
/// range.
Attributes read_op(const Json& json, const BlobReader& blobs);

}  // namespace braze
