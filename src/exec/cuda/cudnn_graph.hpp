// cuDNN's descriptors, and a CudnnProblem as an operation graph of them.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "exec/cuda/cudnn.hpp"
#include "kernels/cuda/cudnn_problem.hpp"

namespace braze::cuda {

/// A descriptor of the backend API, destroyed on the way out. What cuDNN refuses is kUnsupported
/// with its own words.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const Cudnn& cudnn, api::CudnnDescriptorType type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : cudnn_(other.cudnn_), handle_(std::exchange(other.handle_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(cudnn_, other.cudnn_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;
  ~CudnnDescriptor();

  [[nodiscard]] api::CudnnDescriptor get() const { return handle_; }

  template <class T>
  void set(api::CudnnAttribute attribute, api::CudnnType type, std::span<const T> elements) {
    check(cudnn_->set_attribute(handle_, attribute, type, std::ssize(elements),
                                static_cast<const void*>(elements.data())),
          "setting", attribute);
  }
  void set(api::CudnnAttribute attribute, const std::vector<std::int64_t>& elements) {
    set(attribute, api::CudnnType::kInt64, std::span(elements));
  }
  void set(api::CudnnAttribute attribute, const CudnnDescriptor& descriptor) {
    set(attribute, api::CudnnType::kDescriptor,
        std::span<const api::CudnnDescriptor>(&descriptor.handle_, 1));
  }
  /// One element.
  template <class T>
  void set(api::CudnnAttribute attribute, api::CudnnType type, const T& element) {
    set(attribute, type, std::span<const T>(&element, 1));
  }
  void finalize();

  /// How many elements were written.
  template <class T>
  std::int64_t get(api::CudnnAttribute attribute, api::CudnnType type,
                   std::span<T> elements) const {
    std::int64_t count = 0;
    check(cudnn_->get_attribute(handle_, attribute, type, std::ssize(elements), &count,
                                static_cast<void*>(elements.data())),
          "reading", attribute);
    return count;
  }

 private:
  void check(api::CudnnStatus status, const char* doing, api::CudnnAttribute attribute) const;

  const Cudnn* cudnn_;
  api::CudnnDescriptor handle_ = nullptr;
};

/// The problem as a finalised graph, with the descriptors that it is made of. Tensor i of
/// addresses_of() has the id i + 1. kUnsupported if cuDNN refuses any of it.
struct CudnnGraph {
  std::vector<CudnnDescriptor> parts;  // the last is the graph itself
  [[nodiscard]] const CudnnDescriptor& graph() const { return parts.back(); }
};
CudnnGraph make_graph(const Cudnn& cudnn, api::CudnnHandle handle, const CudnnProblem& problem);

}  // namespace braze::cuda
