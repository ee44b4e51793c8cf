// The GPU's kernel families: each is declared once, here, and listed once, in registry.cpp.
#pragma once

#include "kernels/cuda/kernel.hpp"
#include "target/problem.hpp"

namespace braze::cuda {

/// A family and how to build its kernels.
struct Row {
  KernelFamily family;
  Build build;
};

Row host();  // anything, on the CPU, through graph/interpret

/// All rows, in order of preference.
const std::vector<Row>& rows();
/// The planner's view of rows().
Registry registry();
/// The builder of a planned kernel's family.
Build builder(std::string_view family);

}  // namespace braze::cuda
