#include "python/src/borrow.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "python/src/dlpack.hpp"
#include "python/src/error.hpp"

namespace nb = nanobind;

namespace braze::python {
namespace {

[[noreturn]] void refuse(const Where& where, const std::string& what) {
  raise({ErrorCode::kInput, std::string(where.what) + " '" + where.name + "' " + what});
}

void* as_stream(std::intptr_t address) { return reinterpret_cast<void*>(address); }

[[noreturn]] void refuse_device(int type, const Where& where) {
  refuse(where, "is on a device of type " + std::to_string(type) +
                    " as DLPack counts them; expected host memory or a CUDA GPU");
}

/// A call of the library that may wait for other threads.
template <class Call>
void unlocked(const Call& call) {
  Status status = [&call] {
    const nb::gil_scoped_release released;
    return call();
  }();
  unwrap(std::move(status));
}

std::string text_of(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  Py_ssize_t bytes = 0;
  const char* utf8 = text.is_valid() ? PyUnicode_AsUTF8AndSize(text.ptr(), &bytes) : nullptr;
  if (utf8 == nullptr) throw nb::python_error();
  return {utf8, static_cast<std::size_t>(bytes)};
}

std::string class_name(nb::handle object) {
  const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  return text_of(nb::object(type.attr("__qualname__")));
}

std::optional<DType> integer(bool is_signed, std::size_t bytes) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::kInt8 : DType::kUInt8;
    case 2:
      return is_signed ? DType::kInt16 : DType::kUInt16;
    case 4:
      return is_signed ? DType::kInt32 : DType::kUInt32;
    case 8:
      return is_signed ? DType::kInt64 : DType::kUInt64;
    default:
      return std::nullopt;
  }
}

/// A format of the module struct. '>' (the other byte order) is none of ours.
std::optional<DType> dtype_of(std::string_view format, std::size_t bytes) {
  if (!format.empty() && std::string_view("@=<").find(format.front()) != std::string_view::npos)
    format.remove_prefix(1);
  if (format.size() != 1) return std::nullopt;
  switch (format.front()) {
    case 'f':
      return DType::kFloat32;
    case 'e':
      return DType::kFloat16;
    case 'd':
      return DType::kFloat64;
    case '?':
      return DType::kBool;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return integer(true, bytes);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return integer(false, bytes);
    default:
      return std::nullopt;
  }
}

std::optional<DType> dtype_of(const dlpack::Tensor& tensor) {
  if (tensor.lanes != 1 || tensor.bits % 8 != 0) return std::nullopt;
  const std::size_t bytes = tensor.bits / 8U;
  switch (tensor.code) {
    case dlpack::Code::kInt:
      return integer(true, bytes);
    case dlpack::Code::kUInt:
      return integer(false, bytes);
    case dlpack::Code::kFloat:
      if (bytes == 2) return DType::kFloat16;
      if (bytes == 4) return DType::kFloat32;
      if (bytes == 8) return DType::kFloat64;
      return std::nullopt;
    case dlpack::Code::kBfloat:
      if (bytes == 2) return DType::kBFloat16;
      return std::nullopt;
    case dlpack::Code::kBool:
      if (bytes == 1) return DType::kBool;
      return std::nullopt;
    case dlpack::Code::kComplex:
      return std::nullopt;
  }
  return std::nullopt;
}

bool has_gaps(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr) return false;
  std::int64_t expected = 1;
  for (std::int32_t axis = tensor.ndim - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] == 0) return false;
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return true;
    expected *= tensor.shape[axis];
  }
  return false;
}

/// A type string of the array interfaces: "<f4". '>' (the other byte order) is none of ours.
std::optional<DType> dtype_of_typestr(std::string_view text) {
  if (text.size() != 3 || text[0] == '>' || text[2] < '1' || text[2] > '8') return std::nullopt;
  const auto bytes = static_cast<std::size_t>(text[2] - '0');
  switch (text[1]) {
    case 'f':
      return dtype_of(bytes == 2 ? "e" : bytes == 4 ? "f" : bytes == 8 ? "d" : "", bytes);
    case 'i':
      return integer(true, bytes);
    case 'u':
      return integer(false, bytes);
    case 'b':
      if (bytes == 1) return DType::kBool;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

/// A copy in row-major order: by the array's own method (torch's, CuPy's), or by numpy.
nb::object without_gaps(nb::handle array, bool on_gpu) {
  if (nb::hasattr(array, "contiguous")) return array.attr("contiguous")();
  if (on_gpu && nb::hasattr(array, "copy")) return array.attr("copy")();
  return nb::module_::import_("numpy").attr("ascontiguousarray")(array);
}

/// What an exception under way says. It is cleared.
std::string take_message() {
  nb::python_error error;
  return text_of(error.value());
}

/// `otherwise` names the type where the array does not.
DType dtype_or_refuse(
    std::optional<DType> dtype, nb::handle array, const Where& where,
    const std::function<std::string()>& otherwise = [] { return "another"; }) {
  if (dtype) return *dtype;
  const std::string found =
      nb::hasattr(array, "dtype") ? text_of(nb::object(array.attr("dtype"))) : otherwise();
  refuse(where, "has elements of type " + found + ", which Braze does not have");
}

}  // namespace

namespace {

/// numpy's own arrays are in host memory: asking them where would take longer than taking them.
bool is_numpys(nb::handle array) {
  static const PyTypeObject* numpys = nullptr;  // once seen; under the GIL
  PyTypeObject* const type = Py_TYPE(array.ptr());
  if (numpys != nullptr) return type == numpys;
  const nb::handle seen(reinterpret_cast<PyObject*>(type));
  if (class_name(array) == "ndarray" && text_of(nb::object(seen.attr("__module__"))) == "numpy")
    numpys = type;
  return type == numpys;
}

/// True for an array that says that it is in the memory of another device. False where asking
/// fails: reading the array will then say why.
bool is_elsewhere(nb::handle array) {
  if (nb::hasattr(array, "__dlpack_device__")) {
    try {
      const int type = nb::cast<std::pair<int, int>>(array.attr("__dlpack_device__")()).first;
      const auto memory = static_cast<Memory>(type);
      return memory != Memory::kCpu && memory != Memory::kCudaHost;
    } catch (nb::python_error&) {
      return false;
    } catch (const nb::cast_error&) {
      return false;
    }
  }
  return nb::hasattr(array, "__cuda_array_interface__");
}

}  // namespace

Borrowed::Borrowed(nb::handle array, Access access, const Place& place, const Where& where) {
  if (is_numpys(array) && take_buffer(array, access, where)) return;
  if (PyCapsule_CheckExact(array.ptr()) != 0 && take_capsule(array, array, access, where)) return;
  if (take_own(array, place)) return;
  if (!is_elsewhere(array) && take_buffer(array, access, where)) return;
  if (take_dlpack(array, access, place, where) || take_cuda_interface(array, access, place, where))
    return;
  refuse(where, "is a " + class_name(array) +
                    "; expected an array: numpy's, torch's, or any that " + "has __dlpack__");
}

Borrowed::Borrowed(Borrowed&& other) noexcept
    : tensor_(std::move(other.tensor_)),
      gpu_(other.gpu_),
      buffer_(std::exchange(other.buffer_, std::nullopt)),
      owner_(std::move(other.owner_)),
      release_(std::exchange(other.release_, nullptr)) {}

Borrowed::~Borrowed() {
  if (buffer_) PyBuffer_Release(&*buffer_);
  if (release_) release_();
}

bool Borrowed::take_own(nb::handle array, const Place& place) {
  if (!nb::isinstance<Array>(array)) return false;
  const auto& own = nb::cast<const Array&>(array);
  // The maker's runs have an order of their own, which includes all streams.
  if (own.gpu >= 0 && own.maker)
    unlocked([&] { return own.maker->order_before(as_stream(place.stream)); });
  tensor_ = own.tensor;
  gpu_ = own.gpu;
  return true;
}

bool Borrowed::take_buffer(nb::handle array, Access access, const Where& where) {
  if (PyObject_CheckBuffer(array.ptr()) == 0) return false;
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (access == Access::kWrite ? PyBUF_WRITABLE : 0);
  Py_buffer buffer;
  std::optional<DType> dtype;
  if (PyObject_GetBuffer(array.ptr(), &buffer, flags) != 0) {
    const std::string why = take_message();
    // numpy cannot hand out bfloat16 as such.
    if (!nb::hasattr(array, "dtype") || text_of(nb::object(array.attr("dtype"))) != "bfloat16")
      refuse(where, "cannot be used: " + why);
    owner_ = array.attr("view")("uint16");
    if (PyObject_GetBuffer(owner_.ptr(), &buffer, flags) != 0)
      refuse(where, "cannot be used: " + take_message());
    dtype = DType::kBFloat16;
  }
  buffer_ = buffer;
  if (PyBuffer_IsContiguous(&*buffer_, 'C') == 0) {
    if (access == Access::kWrite) refuse(where, "has gaps between its elements; expected none");
    PyBuffer_Release(&*buffer_);
    buffer_.reset();
    const nb::object copy = without_gaps(array, false);
    return take_buffer(copy, access, where);
  }
  if (!dtype) {
    dtype = dtype_of(buffer_->format != nullptr ? buffer_->format : "B",
                     static_cast<std::size_t>(buffer_->itemsize));
  }
  tensor_ = Tensor::view(dtype_or_refuse(dtype, array, where),
                         Shape(buffer_->shape, buffer_->shape + buffer_->ndim), buffer_->buf);
  return true;
}

bool Borrowed::take_dlpack(nb::handle array, Access access, const Place& place,
                           const Where& where) {
  if (!nb::hasattr(array, "__dlpack__") || !nb::hasattr(array, "__dlpack_device__")) return false;
  nb::object capsule;
  try {
    const auto [type, index] = nb::cast<std::pair<int, int>>(array.attr("__dlpack_device__")());
    const auto memory = static_cast<Memory>(type);
    if (memory == Memory::kCuda || memory == Memory::kCudaManaged) {
      gpu_ = index;
      // DLPack's 1 is CUDA's default stream.
      capsule = array.attr("__dlpack__")(nb::arg("stream") = place.stream == 0 ? 1 : place.stream);
    } else if (memory == Memory::kCpu || memory == Memory::kCudaHost) {
      capsule = array.attr("__dlpack__")();
    } else {
      refuse_device(type, where);
    }
  } catch (nb::python_error& error) {
    if (error.matches(nb::module_::import_("braze.errors").attr("Error"))) throw;
    refuse(where, "cannot be used: " + text_of(error.value()));
  }
  if (take_capsule(capsule, array, access, where)) return true;
  // It has gaps and is only read.
  return take_dlpack(without_gaps(array, on_gpu()), access, place, where);
}

/// False if it has gaps.
bool Borrowed::take_capsule(nb::handle capsule, nb::handle array, Access access,
                            const Where& where) {
  auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) refuse(where, "gave a capsule that is not DLPack's: " + take_message());
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  release_ = [managed] {
    if (managed->deleter != nullptr) managed->deleter(managed);
  };
  const dlpack::Tensor& tensor = managed->tensor;
  if (has_gaps(tensor)) {
    if (access == Access::kWrite) refuse(where, "has gaps between its elements; expected none");
    std::exchange(release_, nullptr)();
    return false;
  }
  const auto memory = static_cast<Memory>(tensor.device_type);
  if (memory != Memory::kCpu && memory != Memory::kCudaHost && memory != Memory::kCuda &&
      memory != Memory::kCudaManaged)
    refuse_device(tensor.device_type, where);
  gpu_ = memory == Memory::kCuda || memory == Memory::kCudaManaged ? tensor.device_id : -1;
  tensor_ = Tensor::view(dtype_or_refuse(dtype_of(tensor), array, where,
                                         [&tensor] {
                                           return (tensor.code == dlpack::Code::kComplex
                                                       ? "complex"
                                                       : "another, bits: ") +
                                                  std::to_string(tensor.bits);
                                         }),
                         Shape(tensor.shape, tensor.shape + tensor.ndim),
                         static_cast<std::byte*>(tensor.data) + tensor.byte_offset);
  return true;
}

bool Borrowed::take_cuda_interface(nb::handle array, Access access, const Place& place,
                                   const Where& where) {
  if (!nb::hasattr(array, "__cuda_array_interface__")) return false;
  std::vector<std::int64_t> shape;
  std::optional<std::vector<std::int64_t>> strides;
  std::pair<std::uintptr_t, bool> data;  // address, read-only
  std::optional<std::intptr_t> stream;
  std::string type;
  try {
    const auto facts = nb::cast<nb::dict>(array.attr("__cuda_array_interface__"));
    const auto take = [&facts]<class Value>(const char* name, Value& value) {
      if (facts.contains(name)) value = nb::cast<Value>(facts[name]);
    };
    take("shape", shape);
    take("strides", strides);
    take("data", data);
    take("stream", stream);
    take("typestr", type);
  } catch (nb::python_error& error) {
    refuse(where, "cannot be used: " + text_of(error.value()));
  } catch (const nb::cast_error&) {
    refuse(where, "has a __cuda_array_interface__ that is not as the interface has it");
  }
  if (access == Access::kWrite && data.second)
    refuse(where, "is read-only; expected one that can be written");
  const DType dtype = dtype_or_refuse(dtype_of_typestr(type), array, where);
  const bool empty = std::ranges::find(shape, 0) != shape.end();
  auto expected = static_cast<std::int64_t>(size_of(dtype));  // bytes to the axis's next element
  for (std::size_t axis = shape.size(); strides && !empty && axis-- > 0;) {
    if (strides->size() != shape.size() || (shape[axis] != 1 && (*strides)[axis] != expected))
      refuse(where, "has gaps between its elements; expected none");
    expected *= shape[axis];
  }
  const int gpu = place.model != nullptr ? place.model->gpu() : -1;
  gpu_ = std::max(gpu, 0);  // the interface does not say which
  owner_ = nb::borrow(array);
  if (stream == 1) stream = 0;  // the default one
  if (gpu >= 0 && stream && *stream != place.stream)
    unlocked([&] { return place.model->order_after(as_stream(*stream)); });
  tensor_ =
      Tensor::view(dtype, Shape(shape.begin(), shape.end()), reinterpret_cast<void*>(data.first));
  return true;
}

namespace {

/// A capsule's tensor with what it needs.
struct Exported {
  dlpack::Managed managed{};
  Tensor tensor;
  Shape shape;
};

dlpack::Code code_of(DType dtype) {
  if (dtype == DType::kBFloat16) return dlpack::Code::kBfloat;
  if (dtype == DType::kBool) return dlpack::Code::kBool;
  if (is_float(dtype)) return dlpack::Code::kFloat;
  const std::string_view name = to_string(dtype);
  return name.starts_with('u') ? dlpack::Code::kUInt : dlpack::Code::kInt;
}

}  // namespace

nb::object Array::to_dlpack(std::optional<std::intptr_t> stream) const {
  if (gpu >= 0 && maker && stream != -1) {
    const std::intptr_t reader = stream.value_or(1);
    unlocked([&] { return maker->order_before(as_stream(reader == 1 ? 0 : reader)); });
  }
  auto exported = std::make_unique<Exported>();
  exported->tensor = tensor;
  exported->shape = tensor.shape();
  exported->managed = {
      .tensor = {.data = exported->tensor.data(),
                 .device_type = static_cast<std::int32_t>(gpu < 0 ? Memory::kCpu : Memory::kCuda),
                 .device_id = gpu < 0 ? 0 : gpu,
                 .ndim = static_cast<std::int32_t>(exported->shape.size()),
                 .code = code_of(tensor.dtype()),
                 .bits = static_cast<std::uint8_t>(size_of(tensor.dtype()) * 8),
                 .lanes = 1,
                 .shape = exported->shape.data(),
                 .strides = nullptr,
                 .byte_offset = 0},
      .context = exported.get(),
      .deleter = [](dlpack::Managed* managed) { delete static_cast<Exported*>(managed->context); }};
  const auto drop = [](PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // somebody took it
    auto* unused = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
    unused->deleter(unused);
  };
  PyObject* const capsule = PyCapsule_New(&exported->managed, "dltensor", drop);
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(exported.release());
  return nb::steal(capsule);
}

}  // namespace braze::python
