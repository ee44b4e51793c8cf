// Operation graphs computed in double precision, each tensor rounded to its type where it is
// stored.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/float16.hpp"
#include "support/fake_cudnn/graph.hpp"

namespace braze::cuda::fake {
namespace {

using Index = std::vector<std::int64_t>;

std::int64_t count_of(const Index& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

/// Calls visit(index) for all of them, the last axis fastest.
template <class Visit>
void for_each(const Index& extents, const Visit& visit) {
  Index index(extents.size(), 0);
  for (std::int64_t i = 0; i < count_of(extents); ++i) {
    visit(index);
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      if (++index[axis] < extents[axis]) break;
      index[axis] = 0;
    }
  }
}

/// A tensor's elements in logical order.
struct Elements {
  Index extents;
  std::vector<double> values;

  explicit Elements(const Index& shape)
      : extents(shape), values(static_cast<std::size_t>(count_of(shape)), 0.0) {}
  /// Of an index in a tensor that this one broadcasts to.
  [[nodiscard]] double& at(const Index& index) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      offset = offset * extents[axis] + (extents[axis] == 1 ? 0 : index[axis]);
    return values[static_cast<std::size_t>(offset)];
  }
};

std::int64_t offset_of(const TensorShape& shape, const Index& index) {
  return std::inner_product(index.begin(), index.end(), shape.strides.begin(), std::int64_t{0});
}

double load(const TensorShape& shape, const void* memory, std::int64_t at) {
  if (shape.dtype == 0) return static_cast<const float*>(memory)[at];
  if (shape.dtype == 2) return static_cast<double>(static_cast<const Float16*>(memory)[at]);
  return static_cast<double>(static_cast<const BFloat16*>(memory)[at]);
}

void store(const TensorShape& shape, void* memory, std::int64_t at, double value) {
  if (shape.dtype == 0) {
    static_cast<float*>(memory)[at] = static_cast<float>(value);
  } else if (shape.dtype == 2) {
    static_cast<Float16*>(memory)[at] = Float16(value);
  } else {
    static_cast<BFloat16*>(memory)[at] = BFloat16(value);
  }
}

Elements read(const TensorShape& shape, const void* memory) {
  Elements elements(shape.extents);
  for_each(shape.extents, [&](const Index& index) {
    elements.at(index) = load(shape, memory, offset_of(shape, index));
  });
  return elements;
}

/// Calls visit(input index, filter index, result index) for every product of a convolution.
template <class Visit>
void for_each_product(const Operation& op, const Index& large, const Index& small,
                      const Visit& visit) {
  const Index& filter = op.b.extents;
  const std::int64_t groups = large[1] / filter[1];
  const std::int64_t filters = small[1] / groups;
  for_each(small, [&](const Index& result) {
    Index taps(filter.begin() + 1, filter.end());  // channel of the group, then the window
    for_each(taps, [&](const Index& tap) {
      Index input = result, weight = {result[1]};
      weight.insert(weight.end(), tap.begin(), tap.end());
      input[1] = result[1] / filters * filter[1] + tap[0];
      for (std::size_t axis = 0; axis + 2 < large.size(); ++axis) {
        input[axis + 2] = result[axis + 2] * op.strides[axis] + tap[axis + 1] * op.dilations[axis] -
                          op.pads_begin[axis];
        if (input[axis + 2] < 0 || input[axis + 2] >= large[axis + 2]) return;
      }
      visit(input, weight, result);
    });
  });
}

double activation(const Operation& op, double x) {
  switch (op.mode) {
    case 100:
      if (std::isnan(x)) return x;
      return x < op.lower ? op.lower + op.slope * (x - op.lower) : std::min(x, op.upper);
    case 101:
      return std::tanh(x);
    case 102:
      return 1 / (1 + std::exp(-x));
    case 103:
      return x < 0 ? op.elu_alpha * std::expm1(x) : x;
    case 104:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case 105:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    case 106:
      return x / (1 + std::exp(-x));
    case 107:
      return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    default:
      throw Refused(3000, "no activation");
  }
}

double binary(const Operation& op, double x, double b) {
  switch (op.mode) {
    case 0:
      return x + b;
    case 1:
      return x * b;
    case 6:
      return x / b;
    case 9:
      return x - b;
    default:
      throw Refused(3000, "no binary mode");
  }
}

void run(const OperationGraph& graph, const std::map<std::int64_t, void*>& memory) {
  Elements current(graph.front().y.extents);
  for (const Operation& op : graph) {
    if (op.kind != Operation::Kind::kPointwise) {
      Elements x = read(op.x, memory.at(op.x.id));
      Elements w = read(op.b, memory.at(op.b.id));
      const bool forward = op.kind == Operation::Kind::kForward;
      for_each_product(op, forward ? op.x.extents : op.y.extents,
                       forward ? op.y.extents : op.x.extents,
                       [&](const Index& input, const Index& weight, const Index& result) {
                         if (forward) {
                           current.at(result) += x.at(input) * w.at(weight);
                         } else {
                           current.at(input) += x.at(result) * w.at(weight);
                         }
                       });
    } else if (op.has_b) {
      Elements b = read(op.b, memory.at(op.b.id));
      for_each(op.y.extents, [&](const Index& index) {
        current.at(index) = binary(op, current.at(index), b.at(index));
      });
    } else {
      for (double& value : current.values) value = activation(op, value);
    }
  }
  const TensorShape& result = graph.back().y;
  for_each(result.extents, [&](const Index& index) {
    store(result, memory.at(result.id), offset_of(result, index), current.at(index));
  });
}

}  // namespace

std::function<void()> execution(const std::shared_ptr<const OperationGraph>& graph,
                                const Descriptor& pack, std::int64_t workspace_bytes) {
  pack.need(api::CudnnDescriptorType::kVariantPack);
  if (!pack.finalized) throw Refused(2004, "a variant pack that is not finalised");
  const auto ids = pack.all<std::int64_t>(api::CudnnAttribute::kPackIds);
  const auto pointers = pack.all<void*>(api::CudnnAttribute::kPackPointers);
  std::map<std::int64_t, void*> memory;
  for (std::size_t i = 0; i < ids.size(); ++i) memory[ids[i]] = pointers[i];
  const auto need = [&](const TensorShape& shape) {
    if (shape.is_virtual) return;
    const auto found = memory.find(shape.id);
    if (found == memory.end() || found->second == nullptr)
      throw Refused(2002, "a tensor without an address");
    if (reinterpret_cast<std::uintptr_t>(found->second) % static_cast<std::size_t>(shape.alignment))
      throw Refused(2003, "an address that is not aligned as its tensor says");
  };
  for (const Operation& op : *graph) {
    need(op.x);
    if (op.has_b) need(op.b);
    need(op.y);
  }
  if (workspace_bytes > 0 && pack.one<void*>(api::CudnnAttribute::kPackWorkspace) == nullptr)
    throw Refused(2002, "no workspace");
  return [graph, memory] { run(*graph, memory); };
}

}  // namespace braze::cuda::fake
