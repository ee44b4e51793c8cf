// The GPU's kernel families: each is declared once, here, and listed once, in registry.cpp.
#pragma once

#include "kernels/cuda/kernel.hpp"
#include "target/problem.hpp"

namespace braze::cuda {

/// A family and how to build its kernels.
struct Row {
  KernelFamily family;
  Build build;
};

/// What families have in common that read and write any layout and float type, and take any
/// epilogue.
inline KernelFamily image_family(std::string_view name) {
  KernelFamily family;
  family.name = name;
  family.backend = "cuda";
  family.layouts = LayoutRule::kEach;
  family.epilogue = true;
  family.pitched = true;
  family.converts = true;
  return family;
}

Row conv_stem();         // Conv of few channels, as of an image, on mma.sync
Row matrix_vector();     // MatMul, Gemm and 1x1 Conv of a few rows: bound by the weights' bytes
Row conv_sm90();         // dense Conv and products with constant weights: TMA and wgmma, sm_90 only
Row conv_sm80();         // dense and grouped Conv on mma.sync: fp16, bf16, tf32
Row conv_portable();     // the same on wmma: fp16 from sm_70
Row conv_simt();         // the same in exact fp32
Row conv_direct_cuda();  // any Conv, one thread for a vector of channels of a pixel
Row gemm_cuda();         // MatMul, Gemm
Row pointwise();         // Unary, Binary, Where, Cast, Identity, BatchNorm, (De)Quantize, chains
Row relayout();          // model layout <-> channels-last; also a plain copy
Row concat();            // Concat that could not be a set of views
Row transpose();         // Transpose, DepthToSpace, SpaceToDepth, ChannelShuffle
Row slice();             // Slice, Split, Expand, Tile
Row pad();               // Pad
Row gather();            // Gather
Row squeeze_excite();    // groups: mean over space, two products, scaling
Row conv_sum_sm90();     // groups: two convolutions whose results are added, sm_90 only
Row chain_sm90();        // groups: convolutions after one another, sm_90 only
Row chain_sm80();        // groups: convolutions one after another, on mma.sync
Row chain_portable();    // the same on wmma, and in exact fp32
Row conv_depthwise();    // Conv with group == C
Row pool();              // Pool
Row reduce();            // Reduce, ArgReduce
Row softmax();           // Softmax
Row instance_norm();     // InstanceNorm
Row lrn();               // Lrn
Row resize();            // Resize
Row conv_transpose();    // ConvTranspose
Row host();              // anything, on the CPU, through graph/interpret
Row cudnn();             // Conv, ConvTranspose through cuDNN; in registry_with_cudnn() only

/// All rows, in order of preference.
const std::vector<Row>& rows();
/// The planner's view of rows().
Registry registry();
/// registry(), and before it family "cudnn" (backend "cudnn"): convolutions go to cuDNN wherever it
/// takes them, and why one does not is in Plan::not_fused.
Registry registry_with_cudnn();
/// registry(), and after it family "cudnn", which then forms no group: for plans in which cuDNN may
/// run a group that another family formed, if cudnn_takes() it.
Registry registry_offering_cudnn();
/// The builder of a planned kernel's family, also of "cudnn".
Build builder(std::string_view family);

/// Can cuDNN run this group as it is: one convolution, its epilogue, no Casts, and, once layouts
/// are assigned, every image dense and channels-last? It may still have no engine for it on a
/// device: then CudaProgram runs one of our own families, says so in its plan's not_fused and makes
/// the kernel's family and backend those.
Support cudnn_takes(const Plan& plan, const Group& group);

}  // namespace braze::cuda
