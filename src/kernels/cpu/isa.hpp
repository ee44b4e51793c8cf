// Which instruction sets the kernels are compiled for, and which of them runs.
//
// A file with vector code is compiled once per Highway target:
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/cpu/this_file.cpp"
//   #include <hwy/foreach_target.h>
//   #include "kernels/cpu/isa.hpp"
//   #include "kernels/cpu/simd.hpp"
//   HWY_BEFORE_NAMESPACE();
//   namespace braze::cpu::HWY_NAMESPACE { void f(int); }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace braze::cpu { HWY_EXPORT(f);  ... BRAZE_DISPATCH(f)(1) ... }
//   #endif
// Kernels choose when they are built and keep function pointers, so that a run does not dispatch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Pointer call of a HWY_EXPORTed function, on the instruction set in force.
#define BRAZE_DISPATCH(function) (::braze::cpu::prepare_isa(), HWY_DYNAMIC_DISPATCH(function))

namespace braze::cpu {

/// Compiled targets that this machine runs, best first: "AVX3", "AVX2", "EMU128" or "SCALAR";
/// "NEON" on Arm.
std::vector<std::string> supported_isas();

/// The target in force: the device record's (so BRAZE_ISA counts) until force_isa says otherwise.
std::string active_isa();

/// Kernels built from now on use this target; "EMU128" and "SCALAR" mean the portable one that was
/// compiled. False, and no change, if the machine or the build does not have it. For tests and
/// benchmarks; not while another thread builds kernels.
bool force_isa(std::string_view name);

/// Puts the first choice in force, once. BRAZE_DISPATCH calls it.
void prepare_isa();

}  // namespace braze::cpu
