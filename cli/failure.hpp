// How a command fails: an Error on its way to main(), which prints it and turns it into an exit
// code.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

#include "braze/error.hpp"

namespace braze::cli {

class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)) {}
  [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// The value of a result; throws its error as a Failure.
template <class T>
T unwrap(Result<T> result) {
  if (!result) throw Failure(result.error());
  return std::move(result).value();
}

}  // namespace braze::cli
