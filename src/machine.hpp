// What a network is compiled for and runs on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "braze/braze.hpp"
#include "exec/cuda/gpu.hpp"
#include "exec/program.hpp"
#include "graph/graph.hpp"
#include "plan/choices.hpp"
#include "target/problem.hpp"

namespace braze {

struct Machine {
  Device device;                   // what the planner reckons with
  Registry registry;               // the kernel families it has
  std::shared_ptr<cuda::Gpu> gpu;  // null: the CPU, or an architecture without a GPU (cuda:sm_XX)
  int sm = 0;                      // of the GPU: what kernels are compiled for
  std::shared_ptr<cuda::Compiler> compiler;  // null: NVRTC, behind the cache of kernels
  /// What times in the tuning database are filed under; "": it is neither read nor written.
  std::string name = {};
  /// Families that run others' groups where that was measured to be faster. With some, what was not
  /// is measured while compiling.
  std::vector<Alternative> alternatives = {};
};

/// The machine that options.device names. kUsage if it is no device's name, kDevice if it is not
/// here.
Machine select_machine(const Options& options);

/// Everything after reading a model. Errors are thrown. options.device is not looked at.
Model compile_for(const Machine& machine, Graph graph, const Options& options);

/// The machine for an engine made for `planned`: its kind of device, of which options.device may
/// name one; with options.plan_only its record. kDevice if that is not here, or a GPU of another
/// architecture.
Machine machine_of_engine(const Device& planned, const Options& options);

/// Makes a plan ready to run: on the CPU packs weights, for a GPU compiles kernels and uploads
/// weights.
std::unique_ptr<const Program> make_program(Plan plan, const Machine& machine,
                                            const Options& options);

}  // namespace braze
