#include "base/error.hpp"

namespace braze {

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCheckFailed:
      return 1;
    case ErrorCode::kUsage:
    case ErrorCode::kInput:
      return 2;
    case ErrorCode::kModelInvalid:
    case ErrorCode::kUnsupported:
      return 3;
    case ErrorCode::kDevice:
    case ErrorCode::kIo:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kInternal:
      return 4;
  }
  return 4;
}

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCheckFailed:
      return "check failed";
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kInput:
      return "input";
    case ErrorCode::kModelInvalid:
      return "model invalid";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kDevice:
      return "device";
    case ErrorCode::kIo:
      return "file";
    case ErrorCode::kOutOfMemory:
      return "out of memory";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace braze
