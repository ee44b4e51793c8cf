// A look at CBOR bytes before they are parsed: parsers call themselves for what is nested, so bytes
// that nest deeply would exhaust the stack.
#pragma once

#include <cstddef>
#include <span>

namespace braze {

/// True if `bytes` are exactly one CBOR item, nested at most 32 deep, of the kinds that JSON has,
/// all of definite length.
bool is_plain_cbor(std::span<const std::byte> bytes);

}  // namespace braze
