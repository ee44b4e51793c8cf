#include "kernels/cpu/isa.hpp"

#include <hwy/targets.h>

#include <cstdint>

#include "target/device.hpp"

namespace braze::cpu {
namespace {

/// The machine's own list, taken before the first choice narrows Highway's.
const std::vector<std::int64_t>& supported_targets() {
  static const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}

bool is_portable(std::string_view name) { return name == "EMU128" || name == "SCALAR"; }

bool apply_isa(std::string_view name) {
  for (const std::int64_t target : supported_targets()) {
    const std::string_view has = hwy::TargetName(target);
    if (has != name && !(is_portable(has) && is_portable(name))) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    return true;
  }
  return false;
}

}  // namespace

void prepare_isa() {
  [[maybe_unused]] static const bool ready =
      apply_isa(cpu_device(1).isa) || apply_isa(supported_isas().front());
}

bool force_isa(std::string_view name) {
  prepare_isa();
  return apply_isa(name);
}

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (const std::int64_t target : supported_targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

std::string active_isa() {
  prepare_isa();
  return hwy::TargetName(hwy::SupportedAndGeneratedTargets().front());
}

}  // namespace braze::cpu
