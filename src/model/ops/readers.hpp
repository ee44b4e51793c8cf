// The functions behind the rows of the registry, by the file that defines them.
#pragma once

#include "model/node_reader.hpp"

namespace braze::model {

// unary.cpp
template <UnaryFn kFn>
void read_plain_unary(NodeReader& node) {
  node.emit(Unary{kFn, 0, 0});
}
void read_leaky_relu(NodeReader& node);
void read_elu(NodeReader& node);
void read_selu(NodeReader& node);
void read_celu(NodeReader& node);
void read_thresholded_relu(NodeReader& node);
void read_hard_sigmoid(NodeReader& node);
void read_gelu(NodeReader& node);
void read_clip(NodeReader& node);
void read_cast(NodeReader& node);
void read_cast_like(NodeReader& node);
void read_identity(NodeReader& node);
void read_dropout(NodeReader& node);

// binary.cpp
template <BinaryFn kFn>
void read_plain_binary(NodeReader& node) {
  node.emit(Binary{kFn});
}
void read_mod(NodeReader& node);
void read_where(NodeReader& node);
void read_min(NodeReader& node);
void read_max(NodeReader& node);
void read_sum(NodeReader& node);
void read_mean(NodeReader& node);

// constant.cpp
void read_constant(NodeReader& node);

// conv.cpp
void read_conv(NodeReader& node);
void read_conv_transpose(NodeReader& node);
void read_qlinear_conv(NodeReader& node);

// quantize.cpp
void read_quantize_linear(NodeReader& node);
void read_dequantize_linear(NodeReader& node);

// matmul.cpp
void read_matmul(NodeReader& node);
void read_gemm(NodeReader& node);

// normalize.cpp
void read_batch_normalization(NodeReader& node);
void read_instance_normalization(NodeReader& node);
void read_lrn(NodeReader& node);
void read_softmax(NodeReader& node);
void read_log_softmax(NodeReader& node);

// pool.cpp
void read_max_pool(NodeReader& node);
void read_average_pool(NodeReader& node);
void read_global_average_pool(NodeReader& node);
void read_global_max_pool(NodeReader& node);

// reduce.cpp
void read_reduce(NodeReader& node, ReduceFn fn, int axes_input_since);
template <ReduceFn kFn, int kAxesInputSince = 18>
void read_reduce(NodeReader& node) {
  read_reduce(node, kFn, kAxesInputSince);
}
void read_arg_max(NodeReader& node);
void read_arg_min(NodeReader& node);

// movement.cpp
void read_concat(NodeReader& node);
void read_split(NodeReader& node);
void read_slice(NodeReader& node);
void read_pad(NodeReader& node);
void read_transpose(NodeReader& node);
void read_gather(NodeReader& node);
void read_expand(NodeReader& node);
void read_tile(NodeReader& node);

// reshape.cpp
void read_reshape(NodeReader& node);
void read_flatten(NodeReader& node);
void read_squeeze(NodeReader& node);
void read_unsqueeze(NodeReader& node);
void read_shape(NodeReader& node);
void read_size(NodeReader& node);
void read_constant_of_shape(NodeReader& node);
void read_range(NodeReader& node);

// resize.cpp
void read_resize(NodeReader& node);
void read_upsample(NodeReader& node);
void read_depth_to_space(NodeReader& node);
void read_space_to_depth(NodeReader& node);

}  // namespace braze::model
