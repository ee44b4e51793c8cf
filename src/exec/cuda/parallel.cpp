#include "exec/cuda/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace braze::cuda {

void for_each_index(std::size_t count, int threads, const std::function<void(std::size_t)>& body) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    for (std::size_t i = next++; i < count && !failed; i = next++) {
      try {
        body(i);
      } catch (...) {
        errors[i] = std::current_exception();
        failed = true;
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (std::size_t i = 1; i < std::min(static_cast<std::size_t>(std::max(threads, 1)), count);
         ++i) {
      try {
        workers.emplace_back(work);
      } catch (const std::system_error&) {
        break;  // fewer threads are enough
      }
    }
    work();
  }
  for (const std::exception_ptr& error : errors)
    if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace braze::cuda
