#include "exec/cbor.hpp"

#include <cstdint>
#include <vector>

namespace braze {
namespace {

constexpr std::size_t kMostNested = 32;
enum Major : std::uint8_t { kText = 3, kArray = 4, kMap = 5, kSimple = 7 };

}  // namespace

// An item is a byte [major: 3 bits | info: 5 bits], then its argument in 0, 1, 2, 4 or 8 bytes
// (info below 24 is the argument itself), then what the argument counts.
bool is_plain_cbor(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> waiting = {1};  // items that each open array or map still expects
  while (!waiting.empty()) {
    if (waiting.back() == 0) {
      waiting.pop_back();
      continue;
    }
    --waiting.back();
    if (bytes.empty()) return false;
    const auto first = std::to_integer<unsigned>(bytes[0]);
    bytes = bytes.subspan(1);
    const unsigned major = first >> 5U;
    const unsigned info = first & 31U;
    if (info > 27) return false;  // reserved, or of indefinite length
    std::uint64_t argument = info;
    if (info >= 24) {
      const std::size_t width = std::size_t{1} << (info - 24);
      if (bytes.size() < width) return false;
      argument = 0;
      for (std::size_t i = 0; i < width; ++i)
        argument = argument << 8U | std::to_integer<std::uint64_t>(bytes[i]);
      bytes = bytes.subspan(width);
    }
    switch (major) {
      case 0:  // integers
      case 1:
        break;
      case kText:
        if (argument > bytes.size()) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(argument));
        break;
      case kArray:
      case kMap:
        if (argument > bytes.size() || waiting.size() > kMostNested) return false;
        waiting.push_back(major == kMap ? 2 * argument : argument);
        break;
      case kSimple:  // false, true, null, or a float of 2, 4 or 8 bytes
        if (info < 20 || info == 23 || info == 24) return false;
        break;
      default:
        return false;
    }
  }
  return bytes.empty();
}

}  // namespace braze
