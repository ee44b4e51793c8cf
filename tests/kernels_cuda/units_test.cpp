// Multiprocessors that a family says its blocks would fill: no fewer than it launches.
#include "kernels_cuda/conv_cases.hpp"

namespace braze::cuda::testing {
namespace {

TEST(Units, AreNoLessThanBlocks) {
  std::set<std::string> told;
  for (const int sm : {75, 80, 90}) {
    const Device device = cuda_device(sm);
    for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
      for (const std::int64_t extent : {7, 28, 112}) {
        ConvCase c;
        c.compute = c.x_stored = c.y_stored = dtype;
        c.x = {1, 64, extent, extent};
        c.outputs = 128;
        const Twin twin = conv_twin(c);
        const Node& anchor = twin.graph.node(twin.group.members[0].anchor);
        for (const Row& row : rows()) {
          if (row.family.candidates == nullptr ||
              !row.family.supports(twin.graph, anchor, device).ok)
            continue;
          for (const Candidate& candidate : row.family.candidates(twin.graph, twin.group, device)) {
            const double units = row.family.work(twin.graph, twin.group, candidate, device).units;
            if (units == 0) continue;
            told.insert(std::string(row.family.name));
            const Plan plan = twin.plan(row, device, candidate);
            const Dim3 grid = row.build(plan, plan.kernels[0]).grid;
            EXPECT_GE(units, static_cast<double>(grid.x) * grid.y * grid.z) << row.family.name;
          }
        }
      }
    }
  }
  for (const char* family : {"conv_sm90", "conv_sm80", "conv_portable", "conv_simt"})
    EXPECT_TRUE(told.contains(family)) << family;
}

}  // namespace
}  // namespace braze::cuda::testing
