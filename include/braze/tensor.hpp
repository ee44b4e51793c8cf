// Tensors as users see them: a dtype, a shape and row-major bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "braze/export.hpp"

namespace braze {

/// Element types. The ONNX name of each is what to_string gives.
enum class DType : std::uint8_t {
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat64,
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kBool,
};

/// Bytes of one element.
BRAZE_API std::size_t size_of(DType dtype);
/// ONNX's lower-case name: "float", "float16", "bfloat16", "double", "int8", ... "bool".
BRAZE_API const char* to_string(DType dtype);
BRAZE_API bool is_float(DType dtype);
BRAZE_API bool is_integer(DType dtype);  ///< signed or unsigned, without bool

/// Extent of each axis, outermost first. A scalar is an empty shape.
using Shape = std::vector<std::int64_t>;

/// Product of the extents (1 for a scalar).
BRAZE_API std::int64_t element_count(const Shape& shape);
/// "[1,3,224,224]"
BRAZE_API std::string to_string(const Shape& shape);

/// A dense row-major array. Copies share the bytes; make() and clone() own new ones, view()
/// borrows.
class BRAZE_API Tensor {
 public:
  Tensor() = default;

  /// New zeroed bytes, 64-byte aligned.
  static Tensor make(DType dtype, Shape shape);
  /// Borrows `data`, which must outlive the tensor and hold element_count(shape) elements.
  static Tensor view(DType dtype, Shape shape, void* data);
  /// Shares `owner`'s lifetime; `data` points into it (a mapped file, say).
  static Tensor share(DType dtype, Shape shape, std::shared_ptr<const void> owner,
                      const void* data);

  template <class T>
  static Tensor from(DType dtype, Shape shape, std::span<const T> values);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t count() const { return element_count(shape_); }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(count()) * size_of(dtype_);
  }
  [[nodiscard]] bool defined() const { return data_ != nullptr; }

  [[nodiscard]] const void* data() const { return data_; }
  [[nodiscard]] void* data() { return data_; }
  template <class T>
  [[nodiscard]] const T* as() const {
    return static_cast<const T*>(data_);
  }
  template <class T>
  [[nodiscard]] T* as() {
    return static_cast<T*>(data_);
  }

  /// A deep copy that owns its bytes.
  [[nodiscard]] Tensor clone() const;
  /// The same bytes under another shape with as many elements.
  [[nodiscard]] Tensor reshaped(Shape shape) const;

 private:
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  std::shared_ptr<const void> owner_;
  void* data_ = nullptr;
};

template <class T>
Tensor Tensor::from(DType dtype, Shape shape, std::span<const T> values) {
  Tensor tensor = make(dtype, std::move(shape));
  T* out = tensor.as<T>();
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return tensor;
}

}  // namespace braze
