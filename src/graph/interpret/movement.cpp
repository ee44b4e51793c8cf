// Operators that move elements, written as "which input element is output element [i0, i1, ...]".
#include <algorithm>
#include <cstring>

#include "graph/interpret/call.hpp"

namespace braze::graph {
namespace {

/// Tables of a tensor copied as it is, axis by axis.
std::vector<Ints> identity_tables(const Shape& shape) {
  const Ints strides = dense_strides(shape);
  std::vector<Ints> tables;
  tables.reserve(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) tables.push_back(steps(shape[i], strides[i]));
  return tables;
}

/// Elements before and from `axis` on: an axis of a dense tensor is [outer, extent, inner].
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;

  AxisView(const Shape& shape, std::int64_t axis)
      : outer(element_count({shape.begin(), shape.begin() + axis})),
        extent(shape[static_cast<std::size_t>(axis)]),
        inner(element_count({shape.begin() + axis + 1, shape.end()})) {}
};

/// Copies a block of `count` elements of the axis, from one position of it to another.
void copy_along_axis(const Tensor& from, std::int64_t from_begin, Tensor& to, std::int64_t to_begin,
                     std::int64_t count, std::int64_t axis) {
  const AxisView source(from.shape(), axis);
  const AxisView target(to.shape(), axis);
  const std::size_t item = size_of(from.dtype());
  const auto at = [&](const AxisView& view, std::int64_t outer, std::int64_t begin) {
    return static_cast<std::size_t>((outer * view.extent + begin) * view.inner) * item;
  };
  const auto bytes = static_cast<std::size_t>(count * source.inner) * item;
  if (bytes == 0) return;
  for (std::int64_t i = 0; i < source.outer; ++i) {
    std::memcpy(to.as<std::byte>() + at(target, i, to_begin),
                from.as<std::byte>() + at(source, i, from_begin), bytes);
  }
}

/// Where element i of an axis that is padded by `begin` comes from; -1: from nowhere.
std::int64_t padded_source(std::int64_t i, std::int64_t begin, std::int64_t end,
                           std::int64_t extent, PadMode mode) {
  const std::int64_t first =
      std::max<std::int64_t>(-begin, 0);  // what negative pads leave of the axis
  const std::int64_t count =
      extent + std::min<std::int64_t>(begin, 0) + std::min<std::int64_t>(end, 0);
  std::int64_t at = i - std::max<std::int64_t>(begin, 0);
  if (at >= 0 && at < count) return first + at;
  switch (mode) {
    case PadMode::kConstant:
      return -1;
    case PadMode::kEdge:
      at = std::clamp<std::int64_t>(at, 0, count - 1);
      break;
    case PadMode::kWrap:
      at = (at % count + count) % count;
      break;
    case PadMode::kReflect: {
      const std::int64_t period = std::max<std::int64_t>(2 * (count - 1), 1);
      at = (at % period + period) % period;
      at = std::min(at, period - at);
      if (count == 1) at = 0;
    }
  }
  return first + at;
}

}  // namespace

void run_op(const Concat& op, Call& call) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    const std::int64_t extent = call.shape(i)[static_cast<std::size_t>(op.axis)];
    copy_along_axis(call.input(i), 0, call.output(), begin, extent, op.axis);
    begin += extent;
  }
}

void run_op(const Split& op, Call& call) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    if (call.wants(i)) {
      const AxisView view(call.shape(), op.axis);
      if (view.outer * view.inner > 0) {
        copy_along_axis(call.input(0), begin, call.output(i), 0, op.sizes[i], op.axis);
      }
    }
    begin += op.sizes[i];
  }
}

void run_op(const Slice& op, Call& call) {
  const Ints strides = dense_strides(call.shape());
  std::vector<Ints> tables;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    Ints table = steps(call.output().shape()[i], op.steps[i] * strides[i]);
    for (std::int64_t& offset : table) offset += op.starts[i] * strides[i];
    tables.push_back(std::move(table));
  }
  copy_elements(call.input(0), call.output(), tables);
}

void run_op(const Pad& op, Call& call) {
  const Shape& x = call.shape();
  const Ints strides = dense_strides(x);
  std::vector<Ints> tables;
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    Ints table(static_cast<std::size_t>(call.output().shape()[axis]));
    for (std::size_t i = 0; i < table.size(); ++i) {
      const std::int64_t source = padded_source(static_cast<std::int64_t>(i), op.pads[axis],
                                                op.pads[x.size() + axis], x[axis], op.mode);
      table[i] = source < 0 ? kOutside : source * strides[axis];
    }
    tables.push_back(std::move(table));
  }
  copy_elements(call.input(0), call.output(), tables,
                make_tensor(call.output().dtype(), {}, std::vector<double>{op.value}));
}

void run_op(const Reshape& op, Call& call) { call.output() = call.input(0).reshaped(op.dims); }

void run_op(const Transpose& op, Call& call) {
  const std::vector<Ints> by_input_axis = identity_tables(call.shape());
  std::vector<Ints> tables;
  for (const std::int64_t axis : op.perm)
    tables.push_back(by_input_axis[static_cast<std::size_t>(axis)]);
  copy_elements(call.input(0), call.output(), tables);
}

void run_op(const Gather& op, Call& call) {
  const AxisView view(call.shape(), op.axis);
  Ints indices = call.load<std::int64_t>(1);
  const bool constant = call.node().value(1).is_constant();  // whose mistake a wrong one is
  for (std::int64_t& index : indices) {
    if (index < -view.extent || index >= view.extent) {
      fail(constant ? ErrorCode::kModelInvalid : ErrorCode::kInput,
           "{}: index {} is outside of the {} elements of axis {}", call.node().where(), index,
           view.extent, op.axis);
    }
    index = (index < 0 ? index + view.extent : index) * view.inner;
  }
  copy_elements(
      call.input(0), call.output(),
      {steps(view.outer, view.extent * view.inner), std::move(indices), steps(view.inner, 1)});
}

void run_op(const Expand& op, Call& call) {
  const Ints strides = broadcast_strides(call.shape(), op.dims);
  std::vector<Ints> tables;
  tables.reserve(op.dims.size());
  for (std::size_t i = 0; i < op.dims.size(); ++i) tables.push_back(steps(op.dims[i], strides[i]));
  copy_elements(call.input(0), call.output(), tables);
}

void run_op(const Tile& op, Call& call) {
  std::vector<Ints> tables;
  for (const Ints& once : identity_tables(call.shape())) {
    Ints table;
    for (std::int64_t i = 0; i < op.repeats[tables.size()]; ++i)
      table.insert(table.end(), once.begin(), once.end());
    tables.push_back(std::move(table));
  }
  copy_elements(call.input(0), call.output(), tables);
}

/// DCR: input channel (bh * b + bw) * K + k; CRD: (k * b + bh) * b + bw. Output axes: N, K, H, bh,
/// W, bw.
void run_op(const DepthToSpace& op, Call& call) {
  const Ints s = dense_strides(call.shape());
  const Shape& x = call.shape();
  const std::int64_t b = op.block;
  const std::int64_t channels = x[1] / (b * b);
  const std::int64_t k_step = op.column_row_depth ? b * b : 1;
  const std::int64_t block_step = op.column_row_depth ? 1 : channels;
  copy_elements(call.input(0), call.output(),
                {steps(x[0], s[0]), steps(channels, k_step * s[1]), steps(x[2], s[2]),
                 steps(b, b * block_step * s[1]), steps(x[3], s[3]), steps(b, block_step * s[1])});
}

/// Output channel (bh * b + bw) * C + c. Output axes: N, bh, bw, C, H, W.
void run_op(const SpaceToDepth& op, Call& call) {
  const Ints s = dense_strides(call.shape());
  const Shape& x = call.shape();
  const std::int64_t b = op.block;
  copy_elements(call.input(0), call.output(),
                {steps(x[0], s[0]), steps(b, s[2]), steps(b, s[3]), steps(x[1], s[1]),
                 steps(x[2] / b, b * s[2]), steps(x[3] / b, b * s[3])});
}

/// Output channel i * groups + g is input channel g * (C / groups) + i. Output axes: N, i, g,
/// inner.
void run_op(const ChannelShuffle& op, Call& call) {
  const AxisView view(call.shape(), 1);
  const std::int64_t per_group = view.extent / op.groups;
  copy_elements(call.input(0), call.output(),
                {steps(view.outer, view.extent * view.inner), steps(per_group, view.inner),
                 steps(op.groups, per_group * view.inner), steps(view.inner, 1)});
}

}  // namespace braze::graph
