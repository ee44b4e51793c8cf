// Random graphs made of what rewrites look for, and of what looks almost like it.
#pragma once

#include <string>
#include <vector>

#include "passes/net.hpp"

namespace braze::test {

/// A chain of `steps` on an image, with branches: some values are read again later, or are graph
/// outputs as well.
Net random_bait(unsigned seed, int steps);

}  // namespace braze::test
