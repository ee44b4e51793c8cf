// Errors as values: what can go wrong, and how the command line reports it.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "braze/export.hpp"

namespace braze {

/// Closed list of what can go wrong. The comment is the meaning, the number after it the exit code
/// of the command line.
enum class ErrorCode {
  kCheckFailed,   ///< verify found an output outside its tolerance. 1
  kUsage,         ///< an option or argument is wrong. 2
  kInput,         ///< an input's name, shape, dtype or file is wrong. 2
  kModelInvalid,  ///< the model or engine file is missing, truncated, corrupt or violates ONNX. 3
  kUnsupported,   ///< the model is legal, but uses something that Braze does not do. 3
  kDevice,        ///< the device is missing, too old or failed. 4
  kIo,            ///< reading or writing a file failed (disk full, permissions). 4
  kOutOfMemory,   ///< memory on the host or the device ran out. 4
  kInternal,      ///< a bug in Braze: an invariant does not hold. 4
};

/// Exit code of the command line for an error: 1 check failed, 2 usage or input, 3 model, 4 device,
/// disk or run time.
BRAZE_API int exit_code(ErrorCode code);

/// Name of an error code as it appears in messages, e.g. "model invalid".
BRAZE_API const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  ///< one sentence: the node or file, what was found, what was expected
};

/// Either a value or an Error. The public functions return it; none of them throws.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

/// Result of something that has no value.
struct Done {};
using Status = Result<Done>;

}  // namespace braze
