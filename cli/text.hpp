// Text for people and for scripts: safe to print, whatever a model calls its nodes.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "braze/tensor.hpp"

namespace braze::cli {

/// The text with control characters written as \xNN: a name in a model must not steer the terminal.
std::string printable(std::string_view text);
/// "a, b, c", each printable.
std::string joined(std::span<const std::string> names);
/// "1 kernel", "2 kernels"
std::string count_text(std::size_t count, std::string_view noun);
/// "1.18 MB"
std::string bytes_text(double bytes);
/// "float[1,3,224,224]"
std::string type_text(DType dtype, const Shape& shape);
/// Indented JSON and a newline. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);

/// Writes to stdout; kIo if that fails (a full disk behind a redirection).
void print_out(std::string_view text);
/// "braze: ..." on stderr, control characters made printable.
void print_note(std::string_view text);

}  // namespace braze::cli
