// Elements of tensors as numbers, whatever their dtype: for the interpreter and for passes that
// compute with constants.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "base/float16.hpp"
#include "braze/tensor.hpp"

namespace braze {

/// A stored bool: any byte but 0 is true.
struct Bool8 {
  std::uint8_t byte = 0;
};

/// Calls f(T{}) with the type that stores one element: float, Float16, BFloat16, double,
/// std::int8_t, ..., Bool8.
template <class F>
decltype(auto) visit_storage(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kFloat64:
      return f(double{});
    case DType::kInt8:
      return f(std::int8_t{});
    case DType::kUInt8:
      return f(std::uint8_t{});
    case DType::kInt16:
      return f(std::int16_t{});
    case DType::kUInt16:
      return f(std::uint16_t{});
    case DType::kInt32:
      return f(std::int32_t{});
    case DType::kUInt32:
      return f(std::uint32_t{});
    case DType::kInt64:
      return f(std::int64_t{});
    case DType::kUInt64:
      return f(std::uint64_t{});
    case DType::kBool:
      return f(Bool8{});
  }
  fail(ErrorCode::kInternal, "unknown dtype {}", static_cast<int>(dtype));
}

/// The integer nearest to zero from `value`. ONNX leaves values outside of To's range open; here
/// they become what x86 and numpy give: the low bits of a 64-bit (To has less than 32 bits: of a
/// 32-bit) result, which is the least integer where the value does not fit (or is NaN).
template <std::integral To>
To truncate(double value) {
  using Wide = std::conditional_t<(sizeof(To) < 4 || std::same_as<To, std::int32_t>), std::int32_t,
                                  std::int64_t>;
  if constexpr (std::same_as<To, std::uint64_t>) {
    if (value >= 0x1p63 && value < 0x1p64) return static_cast<To>(value);
  }
  constexpr double kLimit = sizeof(Wide) == 4 ? 0x1p31 : 0x1p63;
  const bool fits = value > -kLimit - 1 && value < kLimit;
  return static_cast<To>(fits ? static_cast<Wide>(value) : std::numeric_limits<Wide>::min());
}

/// One element converted as ONNX's Cast does: floats round once to nearest even, integers wrap.
template <class To, class From>
To convert(From value) {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (std::same_as<From, Bool8>) {
    return convert<To>(static_cast<std::uint8_t>(value.byte != 0));
  } else if constexpr (std::same_as<From, Float16> || std::same_as<From, BFloat16>) {
    return convert<To>(static_cast<double>(value));
  } else if constexpr (std::same_as<To, Bool8>) {
    return Bool8{static_cast<std::uint8_t>(value != From{})};
  } else if constexpr (std::same_as<To, Float16> || std::same_as<To, BFloat16>) {
    return To(static_cast<double>(value));
  } else if constexpr (std::floating_point<From> && std::integral<To>) {
    return truncate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

/// The elements of a tensor as T: double, std::int64_t, float, ...
template <class T>
std::vector<T> load(const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.count()));
  visit_storage(tensor.dtype(), [&](auto zero) {
    const auto* data = tensor.as<decltype(zero)>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = convert<T>(data[i]);
  });
  return values;
}

/// Writes values into a tensor with as many elements, converting each to its dtype.
template <class T>
void store(std::span<const T> values, Tensor& tensor) {
  visit_storage(tensor.dtype(), [&](auto zero) {
    using To = decltype(zero);
    To* data = tensor.as<To>();
    for (std::size_t i = 0; i < values.size(); ++i) data[i] = convert<To>(values[i]);
  });
}

/// A new tensor of these values.
template <class T>
Tensor make_tensor(DType dtype, Shape shape, const std::vector<T>& values) {
  Tensor tensor = Tensor::make(dtype, std::move(shape));
  ensure(values.size() == static_cast<std::size_t>(tensor.count()),
         "a tensor has as many values as elements");
  store(std::span<const T>(values), tensor);
  return tensor;
}

/// The tensor with every element converted to another dtype.
Tensor cast(const Tensor& tensor, DType dtype);

/// The lowest and highest value that an integer dtype holds.
struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = 0;  ///< 2^63 - 1 for uint64
};
IntegerRange integer_range(DType dtype);

}  // namespace braze
