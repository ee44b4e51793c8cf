// Arrays of Python as tensors that share their memory.
//
// Three protocols are read: Python's buffers (numpy and friends), DLPack (torch, CuPy, JAX, ...),
// and for what has no DLPack the CUDA array interface (Numba). Where an array lies is asked first:
// in the memory of a GPU the others fail, or copy. No framework is known here.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "braze/braze.hpp"
#include "braze/tensor.hpp"

namespace braze::python {

/// The numbers are DLPack's.
enum class Memory : int { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

/// A tensor of this process that frameworks can take: on a GPU, or (gpu -1) in host memory.
struct Array {
  Tensor tensor;
  int gpu = -1;
  std::optional<Model> maker;  // whose runs write it; nothing: it is somebody else's memory

  /// A DLPack capsule. What the maker's runs have not written yet is there for what is put into
  /// the CUDA stream `stream` from now on (as DLPack numbers them: 1 the default one, -1 none).
  [[nodiscard]] nanobind::object to_dlpack(std::optional<std::intptr_t> stream) const;
};

/// Where arrays are used: by a run of a model, or (no model) by the host.
struct Place {
  const Model* model = nullptr;
  std::intptr_t stream = 0;
};

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
  /// Work on an array on a GPU is ordered before what comes next in the place's stream; of a DLPack
  /// capsule instead of an array that is taken to be so.
  Borrowed(nanobind::handle array, Access access, const Place& place, const Where& where);
  Borrowed(Borrowed&& other) noexcept;
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed();

  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  [[nodiscard]] bool on_gpu() const { return gpu_ >= 0; }
  /// The number of the GPU; -1: host memory.
  [[nodiscard]] int gpu() const { return gpu_; }

 private:
  bool take_own(nanobind::handle array, const Place& place);
  bool take_buffer(nanobind::handle array, Access access, const Where& where);
  bool take_dlpack(nanobind::handle array, Access access, const Place& place, const Where& where);
  bool take_capsule(nanobind::handle capsule, nanobind::handle array, Access access,
                    const Where& where);
  bool take_cuda_interface(nanobind::handle array, Access access, const Place& place,
                           const Where& where);

  Tensor tensor_;
  int gpu_ = -1;
  std::optional<Py_buffer> buffer_;
  nanobind::object owner_;  // the capsule, or a copy without gaps
  std::function<void()> release_;
};

}  // namespace braze::python
