// Random graphs: simplified or not, they compute the same.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "passes/bait.hpp"
#include "passes/check.hpp"

namespace braze::test {
namespace {

constexpr unsigned kGraphs = 1000;

TEST(Property, SimplifiedGraphsComputeTheSame) {
  std::map<std::string, int> rewrites;
  PassOptions options;
  options.trace = [&rewrites](const PassTrace& trace) {
    rewrites[std::string(trace.pass)] += trace.rewrites;
  };
  for (unsigned seed = 1; seed <= kGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Net net = random_bait(seed, 3 + static_cast<int>(seed % 12));
    simplified(net, options);
    if (HasFailure()) break;
  }
  // The bait is worth something: every pass found some.
  for (const std::string_view pass : pass_names()) {
    if (pass == "promote_half") continue;
    EXPECT_GT(rewrites[std::string(pass)], 0) << pass;
  }
}

// Each pass alone leaves the others' work undone, and the graph right.
TEST(Property, EachPassAloneComputesTheSame) {
  for (const std::string_view wanted : pass_names()) {
    PassOptions options;
    for (const std::string_view pass : pass_names()) {
      if (pass != wanted) options.disabled.emplace_back(pass);
    }
    for (unsigned seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(std::string(wanted) + ", seed " + std::to_string(seed));
      Net net = random_bait(seed, 12);
      simplified(net, options);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace braze::test
