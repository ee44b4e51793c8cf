#include "exec/program.hpp"

#include "base/error.hpp"

namespace braze {
namespace {

[[noreturn]] void refuse_stream(const Plan& plan) {
  fail(ErrorCode::kUsage, "the network runs on {}, which has no streams", plan.device.name);
}

}  // namespace

void Program::run_on_gpu(std::span<const void* const> /*inputs*/,
                         std::span<void* const> /*outputs*/, void* /*stream*/) const {
  fail(ErrorCode::kUsage, "the network runs on {}, which takes no tensors on a GPU",
       plan().device.name);
}

void Program::copy_from_gpu(std::span<const void* const> /*outputs*/,
                            std::span<void* const> /*host*/, void* /*stream*/) const {
  fail(ErrorCode::kUsage, "the network runs on {}, which makes no tensors on a GPU",
       plan().device.name);
}

void Program::order_after(void* /*stream*/) const { refuse_stream(plan()); }
void Program::order_before(void* /*stream*/) const { refuse_stream(plan()); }
void Program::synchronize() const { refuse_stream(plan()); }

std::shared_ptr<std::byte> Program::allocate_on_gpu(std::size_t /*bytes*/) const {
  fail(ErrorCode::kUsage, "the network runs on {}, which has no memory of a GPU",
       plan().device.name);
}

}  // namespace braze
