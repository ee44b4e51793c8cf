#include "graph/elements.hpp"

namespace braze {

Tensor cast(const Tensor& tensor, DType dtype) {
  Tensor result = Tensor::make(dtype, tensor.shape());
  const auto count = static_cast<std::size_t>(tensor.count());
  visit_storage(tensor.dtype(), [&](auto from) {
    visit_storage(dtype, [&](auto to) {
      using To = decltype(to);
      const auto* source = tensor.as<decltype(from)>();
      To* target = result.as<To>();
      for (std::size_t i = 0; i < count; ++i) target[i] = convert<To>(source[i]);
    });
  });
  return result;
}

IntegerRange integer_range(DType dtype) {
  return visit_storage(dtype, [](auto zero) -> IntegerRange {
    using T = decltype(zero);
    if constexpr (std::same_as<T, std::uint64_t>) {
      return {0, std::numeric_limits<std::int64_t>::max()};
    } else if constexpr (std::integral<T>) {
      return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
    } else {
      return {0, 1};
    }
  });
}

}  // namespace braze
