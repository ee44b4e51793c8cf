// Independent work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace braze::cuda {

/// body(i) for every i below `count`, on up to `threads` threads. After an error no more are begun;
/// of several, that of the lowest i is thrown.
void for_each_index(std::size_t count, int threads, const std::function<void(std::size_t)>& body);

}  // namespace braze::cuda
