// Plans as JSON and blobs.
#pragma once

#include "exec/blobs.hpp"
#include "exec/json.hpp"
#include "plan/plan.hpp"

namespace braze {

/// Everything of a plan but the device's figures: of the device its name, sm, units
/// and tf32. What the graph already
/// says (an epilogue step's function and operand) is not repeated.
Json to_json(const Plan& plan, BlobWriter& blobs);

/// The inverse. kModelInvalid where a member is missing or of another type, a number is out of
/// range, or an id refers to nothing: every id in the plan can be followed. Whether the plan makes
/// sense is for check_plan() to say.
Plan read_plan(const Json& json, const BlobReader& blobs);

}  // namespace braze
