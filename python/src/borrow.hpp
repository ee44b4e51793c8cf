// Arrays of Python as tensors that share their memory.
//
// Two protocols are read: Python's buffers (numpy and friends) and DLPack (torch, CuPy, JAX, ...).
// Neither numpy nor torch is known here.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "braze/tensor.hpp"

namespace braze::python {

/// The numbers are DLPack's.
enum class Memory : int { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

/// What an array is meant to be, for messages: input 'x'.
struct Where {
  const char* what;
  const std::string& name;
};

/// An array that is held while its memory is used. Made and destroyed with the GIL.
class Borrowed {
 public:
  enum class Access : bool { kRead, kWrite };

  /// InputError, naming `where`, if the object is no array, has elements that
  /// Braze does not have, is neither in host memory nor on a CUDA GPU, or, to be written to, has
  /// gaps or is read-only. An array with gaps that is only read is copied into a new one without.
  /// `stream` is handed to the maker of a CUDA array, which orders its work before it.
  Borrowed(nanobind::handle array, Access access, std::intptr_t stream, const Where& where);
  Borrowed(Borrowed&& other) noexcept;
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed();

  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  [[nodiscard]] bool on_gpu() const { return gpu_ >= 0; }
  /// The number of the GPU; -1: host memory.
  [[nodiscard]] int gpu() const { return gpu_; }

 private:
  bool take_buffer(nanobind::handle array, Access access, const Where& where);
  bool take_dlpack(nanobind::handle array, Access access, std::intptr_t stream, const Where& where);

  Tensor tensor_;
  int gpu_ = -1;
  std::optional<Py_buffer> buffer_;
  nanobind::object owner_;  // the capsule, or a copy without gaps
  std::function<void()> release_;
};

/// A tensor of this process as a DLPack capsule, on a GPU or (gpu -1) in host memory.
nanobind::object to_dlpack(const Tensor& tensor, int gpu);

}  // namespace braze::python
