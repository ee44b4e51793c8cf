// Descriptors of the fake cuDNN, and the operation graphs made of them.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/cuda/cudnn_api.hpp"

namespace braze::cuda::fake {

/// What a function returns instead of success.
struct Refused : std::runtime_error {
  Refused(api::CudnnStatus code, const std::string& why) : runtime_error(why), status(code) {}
  api::CudnnStatus status;
};

struct TensorShape {
  std::int64_t id = 0, alignment = 1;
  bool is_virtual = false;
  int dtype = 0;
  std::vector<std::int64_t> extents, strides;
};
struct Operation {
  enum class Kind { kForward, kBackwardData, kPointwise } kind = Kind::kPointwise;
  int mode = 0;                                                        // pointwise
  double lower = 0, upper = 0, slope = 0, elu_alpha = 1;               // pointwise
  std::vector<std::int64_t> pads_begin, pads_end, strides, dilations;  // convolution
  TensorShape x, b, y;  // b: the filter, or the second operand
  bool has_b = false;
};
using OperationGraph = std::vector<Operation>;

struct Descriptor {
  api::CudnnDescriptorType type = api::CudnnDescriptorType::kTensor;
  bool finalized = false;
  std::size_t index = 0;  // engine, configuration, plan: in CudnnState::configs
  // What was set, once finalised; as copies, since parts may go before what is made of them.
  TensorShape tensor;
  Operation operation;  // also what a convolution or pointwise descriptor says of one
  std::shared_ptr<const OperationGraph> graph;

  /// BAD_PARAM for an attribute that the descriptor has not, of another type, or set too late.
  void set(api::CudnnAttribute attribute, api::CudnnType type, std::int64_t count,
           const void* elements);
  /// What finalising asks: all that must be set is, and fits together.
  void check();
  void need(api::CudnnDescriptorType wanted) const {
    if (type != wanted) throw Refused(2012, "a descriptor of another type was expected");
  }

  template <class T>
  [[nodiscard]] std::vector<T> all(api::CudnnAttribute attribute) const {
    const auto found = attributes_.find(attribute);
    if (found == attributes_.end()) throw Refused(2000, "an attribute is not set");
    std::vector<T> values(found->second.size() / sizeof(T));
    std::memcpy(values.data(), found->second.data(), found->second.size());
    return values;
  }
  template <class T>
  [[nodiscard]] T one(api::CudnnAttribute attribute) const {
    return all<T>(attribute).at(0);
  }
  [[nodiscard]] bool has(api::CudnnAttribute attribute) const {
    return attributes_.contains(attribute);
  }
  /// A finalised descriptor that an attribute names.
  [[nodiscard]] const Descriptor& child(api::CudnnAttribute attribute,
                                        api::CudnnDescriptorType wanted) const;

 private:
  void check_tensor();
  void check_convolution();
  void check_pointwise();
  void check_forward();
  void check_backward_data();
  void check_operation_pointwise();
  void check_graph();

  std::map<api::CudnnAttribute, std::vector<std::byte>> attributes_;
};

/// "forward x float16[1,8,4,4] w ... -> y; add ..."
std::string text_of(const OperationGraph& graph);

/// Runs a graph on the addresses of a variant pack. BAD_PARAM if one is absent or not aligned.
std::function<void()> execution(const std::shared_ptr<const OperationGraph>& graph,
                                const Descriptor& pack, std::int64_t workspace_bytes);

}  // namespace braze::cuda::fake
