// Every rewrite, each in a file of its name under rewrites/ that begins with its equation. A
// rewrite changes the graph wherever it fits and returns how often it did; none of them changes
// what the graph computes beyond rounding.
#pragma once

#include "graph/graph.hpp"

namespace braze {

// Nothing to do at run time
int fold_constants(Graph& graph);  ///< f(constants)
int fold_identity(Graph& graph);   ///< f(x) = x
int select_branch(Graph& graph);   ///< Where with a constant condition
int drop_expand(Graph& graph);     ///< Expand before a Binary that broadcasts anyway
int merge_common(Graph& graph);    ///< equal nodes and constants

// One spelling of each thing
int constants_right(Graph& graph);       ///< c + x
int sub_to_add(Graph& graph);            ///< x - c
int div_to_mul(Graph& graph);            ///< x / 2^n
int pow_to_mul(Graph& graph);            ///< x^2
int min_max_to_clip(Graph& graph);       ///< Min and Max with a constant; Clip(0, inf) is Relu
int merge_clips(Graph& graph);           ///< Clip and Relu, one after the other
int gather_to_slice(Graph& graph);       ///< Gather of evenly spaced constants
int merge_slices(Graph& graph);          ///< Slice of Slice
int merge_reshapes(Graph& graph);        ///< Reshape of Reshape
int merge_transposes(Graph& graph);      ///< Transpose of Transpose
int transpose_to_reshape(Graph& graph);  ///< Transpose that moves axes of extent 1
int slice_before_reshape(Graph& graph);  ///< Slice of whole rows of a reshaped array
int pool_to_reduce(Graph& graph);        ///< Pool over the whole image
int matmul_to_gemm(Graph& graph);        ///< MatMul of matrices

// Operators that a model spells with simpler ones
int recompose_mish(Graph& graph);
int recompose_gelu(Graph& graph);
int recompose_silu(Graph& graph);
int recompose_hard_sigmoid(Graph& graph);
int recompose_hard_swish(Graph& graph);
int recompose_instance_norm(Graph& graph);
int unwrap_instance_norm(Graph& graph);  ///< InstanceNorm between Reshapes
int recompose_pixel_shuffle(Graph& graph);
int recompose_channel_shuffle(Graph& graph);
int recompose_focus(Graph& graph);  ///< strided Slices concatenated: SpaceToDepth

// Into weights and windows
int fold_pad_into_conv(Graph& graph);
int fold_pad_into_pool(Graph& graph);
int fold_space_to_depth_into_conv(Graph& graph);
int fold_affine_into_conv(
    Graph& graph);  ///< BatchNorm, scale, bias after Conv, ConvTranspose, Gemm
int fold_affine_into_instance_norm(Graph& graph);  ///< scale, bias after InstanceNorm
int fold_affine_before_conv(Graph& graph);         ///< BatchNorm, scale, bias before a convolution
int merge_affine(Graph& graph);                    ///< scale, bias, scale, bias, ...
int batch_norm_to_affine(Graph& graph);            ///< what is left of BatchNorm: Mul and Add

}  // namespace braze
