// Operators that move elements: Concat, Split, Slice, Pad, Reshape, Transpose, Gather, Expand,
// Tile.
#include <algorithm>
#include <numeric>

#include "graph/infer/infer.hpp"

namespace braze::graph {

Types infer_op(const Concat& op, const NodeView& in) {
  Shape shape = in.shape(0);
  const auto axis = static_cast<std::size_t>(in.axis(op.axis, in.rank(0)));
  for (std::size_t i = 1; i < in.input_count(); ++i) {
    in.expect_same_dtype(i, "input");
    Shape other = in.shape(i);
    if (other.size() != shape.size()) {
      in.invalid("'{}' has shape {}, but '{}' has {}", in.value(i).name, to_string(other),
                 in.value(0).name, to_string(in.shape(0)));
    }
    const std::int64_t extent = other[axis];
    other[axis] = shape[axis];
    if (other != shape) {
      in.invalid("'{}' has shape {}, but '{}' has {}; only axis {} may differ", in.value(i).name,
                 to_string(in.shape(i)), in.value(0).name, to_string(in.shape(0)), axis);
    }
    shape[axis] += extent;
  }
  return {{in.dtype(0), std::move(shape)}};
}

Types infer_op(const Split& op, const NodeView& in) {
  const auto axis = static_cast<std::size_t>(in.axis(op.axis, in.rank(0)));
  const std::int64_t total = std::accumulate(op.sizes.begin(), op.sizes.end(), std::int64_t{0});
  if (total != in.shape(0)[axis] || *std::min_element(op.sizes.begin(), op.sizes.end()) < 0) {
    in.invalid("the parts {} do not add up to the {} elements of axis {}", to_string(op.sizes),
               in.shape(0)[axis], axis);
  }
  if (op.sizes.size() != in.output_count()) {
    in.invalid("has {} outputs, but {} parts", in.output_count(), op.sizes.size());
  }
  Types types;
  for (const std::int64_t size : op.sizes) {
    Shape shape = in.shape(0);
    shape[axis] = size;
    types.push_back({in.dtype(0), std::move(shape)});
  }
  return types;
}

Types infer_op(const Slice& op, const NodeView& in) {
  const std::size_t rank = in.shape(0).size();
  ensure(op.starts.size() == rank && op.ends.size() == rank && op.steps.size() == rank &&
             op.axes.empty(),
         "a resolved Slice has one entry per axis");
  Shape shape;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t distance =
        op.steps[i] > 0 ? op.ends[i] - op.starts[i] : op.starts[i] - op.ends[i];
    const std::int64_t step = std::abs(op.steps[i]);
    shape.push_back(distance <= 0 ? 0 : (distance + step - 1) / step);
  }
  return {{in.dtype(0), std::move(shape)}};
}

Types infer_op(const Pad& op, const NodeView& in) {
  Shape shape = in.shape(0);
  const std::size_t rank = shape.size();
  ensure(op.pads.size() == 2 * rank, "a resolved Pad has two entries per axis");
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t begin = op.pads[i];
    const std::int64_t end = op.pads[rank + i];
    const std::int64_t kept =
        shape[i] + std::min<std::int64_t>(begin, 0) + std::min<std::int64_t>(end, 0);
    const std::int64_t extent = shape[i] + begin + end;
    const bool repeats = op.mode != PadMode::kConstant && (begin > 0 || end > 0);
    if (extent < 0 || (repeats && kept < 1)) {
      in.invalid("pads {} and {} do not fit the {} elements of axis {}", begin, end, shape[i], i);
    }
    shape[i] = extent;
  }
  return {{in.dtype(0), std::move(shape)}};
}

Types infer_op(const Reshape& op, const NodeView& in) {
  for (const std::int64_t extent : op.dims)
    ensure(extent >= 0, "a resolved Reshape has the output's shape");
  if (element_count(op.dims) != element_count(in.shape(0))) {
    in.invalid("x of shape {} does not have the elements of shape {}", to_string(in.shape(0)),
               to_string(op.dims));
  }
  return {{in.dtype(0), op.dims}};
}

Types infer_op(const Transpose& op, const NodeView& in) {
  const std::size_t rank = in.shape(0).size();
  Ints sorted = op.perm;
  std::sort(sorted.begin(), sorted.end());
  Ints all(rank);
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all)
    in.invalid("perm {} is no permutation of the {} axes of x", to_string(op.perm), rank);
  Shape shape;
  for (const std::int64_t axis : op.perm)
    shape.push_back(in.shape(0)[static_cast<std::size_t>(axis)]);
  return {{in.dtype(0), std::move(shape)}};
}

Types infer_op(const Gather& op, const NodeView& in) {
  if (in.dtype(1) != DType::kInt32 && in.dtype(1) != DType::kInt64) {
    in.invalid("the indices are {}, expected int32 or int64", to_string(in.dtype(1)));
  }
  Shape shape = in.shape(0);
  const std::int64_t axis = in.axis(op.axis, in.rank(0));
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, in.shape(1).begin(), in.shape(1).end());
  return {{in.dtype(0), std::move(shape)}};
}

Types infer_op(const Expand& op, const NodeView& in) {
  if (broadcast_shape(in.shape(0), op.dims, in.where()) != op.dims) {
    in.invalid("x of shape {} does not broadcast to {}", to_string(in.shape(0)),
               to_string(op.dims));
  }
  return {{in.dtype(0), op.dims}};
}

Types infer_op(const Tile& op, const NodeView& in) {
  Shape shape = in.shape(0);
  if (op.repeats.size() != shape.size()) {
    in.invalid("has {} repeats for the {} axes of x", op.repeats.size(), shape.size());
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (op.repeats[i] < 0)
      in.invalid("repeats are {}, expected none below 0", to_string(op.repeats));
    if (__builtin_mul_overflow(shape[i], op.repeats[i], &shape[i]))
      in.invalid("repeats are {}", to_string(op.repeats));
  }
  return {{in.dtype(0), std::move(shape)}};
}

}  // namespace braze::graph
