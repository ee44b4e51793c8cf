// The one exception type used inside the library; the public functions turn it into an Error value.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <string>
#include <utility>

#include "braze/error.hpp"

namespace braze {

class Exception : public std::exception {
 public:
  explicit Exception(Error error) : error_(std::move(error)) {}
  [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

/// Throws an Exception whose message is formatted from the arguments.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Exception(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// An invariant of Braze itself: false is a bug, not the user's mistake.
inline void ensure(bool condition, const char* invariant) {
  if (!condition) fail(ErrorCode::kInternal, "internal error: {} does not hold", invariant);
}

}  // namespace braze
