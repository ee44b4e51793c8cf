// Is a plan that came from outside one that kernels may trust?
#pragma once

#include "plan/plan.hpp"
#include "target/problem.hpp"

namespace braze {

/// Checks a plan whose ids can all be followed: every node is legal and makes what infer() says;
/// every kernel belongs to a family of `registry` that supports its anchor, in a layout and with a
/// candidate that the family has; every value that a kernel touches lies inside the arena, an input
/// or an output. kModelInvalid naming the node, kernel or value.
///
/// Not checked is whether the plan computes what its graph says: kernels out of order, or values
/// that overlap, give wrong numbers, never an access outside of the memory they are given.
void check_plan(const Plan& plan, const Device& device, const Registry& registry);

}  // namespace braze
