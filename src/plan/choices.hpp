// The ways to run a kernel's group, and what is known of their times.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace braze {

/// Times that were measured on the plan's device.
class Measurements {
 public:
  virtual ~Measurements() = default;
  /// Microseconds of a way (name_of) to do a problem (problem_text); nothing if it was not
  /// measured.
  [[nodiscard]] virtual std::optional<double> us(std::string_view problem,
                                                 std::string_view way) const = 0;
};

/// A family that runs groups which another family formed.
struct Alternative {
  std::string_view family;  // a row of the registry
  Support (*takes)(const Plan& plan, const Group& group) = nullptr;
};

/// What a plan is made from beside graph, device, options and registry.
struct Knowledge {
  const Measurements* measurements = nullptr;  // null: estimates only
  std::vector<Alternative> alternatives;       // beside those that the registry itself offers
};

/// One way to run a group.
struct Way {
  const KernelFamily* family = nullptr;
  Candidate candidate;
  Work work;
  double est_us = 0;
};

/// All ways to run a kernel's group: those of its own family by estimate, the fastest first; then
/// those of the other families that take the group as it lies in memory, likewise: estimates of
/// different families are not compared, so without measurements they are left out. Never empty.
std::vector<Way> ways_of(const Plan& plan, const KernelPlan& kernel, const Registry& registry,
                         const Knowledge& knowledge);

/// "conv_sm90 pixels=128 channels=64 split=1"
std::string name_of(std::string_view family, const Candidate& candidate);
inline std::string name_of(const Way& way) { return name_of(way.family->name, way.candidate); }

/// What a kernel has to do, in words that name no family, value or node: operators, epilogue,
/// dtypes, extents and layouts. Kernels with equal texts take equally long on a device.
std::string problem_text(const Plan& plan, const KernelPlan& kernel);

/// Runs the kernel's group this way from now on.
void take(KernelPlan& kernel, const Way& way);

}  // namespace braze
