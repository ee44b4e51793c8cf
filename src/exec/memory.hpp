// Memory of a program on the host.
#pragma once

#include <cstddef>
#include <memory>

namespace braze {

/// `bytes` of undefined contents, aligned to a cache line. kOutOfMemory naming `what`.
std::shared_ptr<std::byte> reserve(std::size_t bytes, const char* what);

}  // namespace braze
