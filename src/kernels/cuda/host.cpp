// The family of last resort: the CPU's reference kernel, between two launches. What it reads and
// writes is copied.
#include "kernels/cpu/families.hpp"
#include "kernels/cuda/families.hpp"

namespace braze::cuda {

Row host() {
  KernelFamily family = cpu::reference().family;
  family.backend = "cuda";
  return {family, [](const Plan& plan, const KernelPlan& kernel) {
            Kernel result;
            result.host = cpu::reference().build(plan, kernel);
            return result;
          }};
}

}  // namespace braze::cuda
