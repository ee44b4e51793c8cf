#include "python/src/error.hpp"

namespace nb = nanobind;

namespace braze::python {
namespace {

const char* class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCheckFailed:
      return "CheckFailedError";
    case ErrorCode::kUsage:
      return "UsageError";
    case ErrorCode::kInput:
      return "InputError";
    case ErrorCode::kModelInvalid:
      return "ModelError";
    case ErrorCode::kUnsupported:
      return "UnsupportedError";
    case ErrorCode::kDevice:
      return "DeviceError";
    case ErrorCode::kIo:
      return "FileError";
    case ErrorCode::kOutOfMemory:
      return "OutOfMemoryError";
    case ErrorCode::kInternal:
      break;
  }
  return "InternalError";
}

}  // namespace

void raise(const Error& error) {
  const nb::object type = nb::module_::import_("braze.errors").attr(class_of(error.code));
  PyErr_SetObject(type.ptr(), nb::str(error.message.c_str(), error.message.size()).ptr());
  throw nb::python_error();
}

}  // namespace braze::python
