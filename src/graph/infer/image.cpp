// Resize, DepthToSpace, SpaceToDepth, ChannelShuffle.
#include "graph/infer/infer.hpp"

namespace braze::graph {
namespace {

void expect_image(const NodeView& in) {
  if (in.rank(0) != 4) in.invalid("x has shape {}, expected [N,C,H,W]", to_string(in.shape(0)));
}

}  // namespace

Types infer_op(const Resize& op, const NodeView& in) {
  const std::size_t rank = in.shape(0).size();
  ensure(op.sizes.size() == rank && op.scales.size() == rank && op.roi.size() == 2 * rank,
         "a resolved Resize has sizes and scales per axis");
  for (std::size_t i = 0; i < rank; ++i) {
    if (op.sizes[i] < 0 || (in.shape(0)[i] == 0 && op.sizes[i] > 0)) {
      in.invalid("x of shape {} cannot be resized to {}", to_string(in.shape(0)),
                 to_string(op.sizes));
    }
  }
  return {{in.dtype(0), op.sizes}};
}

Types infer_op(const DepthToSpace& op, const NodeView& in) {
  expect_image(in);
  const Shape& x = in.shape(0);
  const std::int64_t block = op.block;
  if (block < 1 || x[1] % (block * block) != 0) {
    in.invalid("x has {} channels, expected a multiple of blocksize {} squared", x[1], block);
  }
  return {{in.dtype(0), {x[0], x[1] / (block * block), x[2] * block, x[3] * block}}};
}

Types infer_op(const SpaceToDepth& op, const NodeView& in) {
  expect_image(in);
  const Shape& x = in.shape(0);
  const std::int64_t block = op.block;
  if (block < 1 || x[2] % block != 0 || x[3] % block != 0) {
    in.invalid("x of shape {} does not divide into blocks of {}", to_string(x), block);
  }
  return {{in.dtype(0), {x[0], x[1] * block * block, x[2] / block, x[3] / block}}};
}

Types infer_op(const ChannelShuffle& op, const NodeView& in) {
  if (in.rank(0) < 2 || op.groups < 1 || in.shape(0)[1] % op.groups != 0) {
    in.invalid("the channels of x {} do not divide into {} groups", to_string(in.shape(0)),
               op.groups);
  }
  return {{in.dtype(0), in.shape(0)}};
}

}  // namespace braze::graph
