// Errors of the library as Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "braze/error.hpp"

namespace braze::python {

/// Throws the class of braze.errors that stands for the code. Needs the GIL.
[[noreturn]] void raise(const Error& error);

/// The value, or the exception.
template <class T>
T unwrap(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}

}  // namespace braze::python
