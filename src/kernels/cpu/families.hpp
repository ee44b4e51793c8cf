// The CPU's kernel families: each is declared once, here, and listed once, in registry.cpp.
#pragma once

#include "kernels/cpu/kernel.hpp"
#include "target/problem.hpp"

namespace braze::cpu {

/// A family and how to build its kernels.
struct Row {
  KernelFamily family;
  Build build;
};

Row conv_direct();     // dense and grouped Conv, 1-D to 3-D: implicit GEMM on packed weights
Row conv_winograd();   // 3x3 Conv at stride 1: Winograd F(4x4,3x3) and F(2x2,3x3)
Row conv_depthwise();  // Conv with group == C: vectors along channels
Row chain_rows();      // groups of convolutions, pools and elementwise nodes, row by row
Row conv_transpose();  // ConvTranspose
Row gemm();            // MatMul, Gemm
Row pool();            // Pool
Row pointwise();       // Unary, Binary, Where, Cast, BatchNorm and chains of them as an epilogue
Row reduce();          // Reduce, ArgReduce
Row softmax();         // Softmax
Row instance_norm();   // InstanceNorm
Row lrn();             // Lrn
Row resize();          // Resize
Row concat();          // Concat that could not be a set of views
Row transpose();       // Transpose, DepthToSpace, SpaceToDepth, ChannelShuffle: permutations of a
                       // reshaped array
Row slice();           // Slice, Split, Pad, Expand, Tile: a strided box copied into a box
Row gather();          // Gather
Row quantized();       // Quantize, Dequantize, QLinearConv: exact integer arithmetic
Row relayout();        // model layout <-> channels-last; also a plain copy
Row reference();       // anything, through graph/interpret

/// All rows, in order of preference.
const std::vector<Row>& rows();
/// The planner's view of rows().
Registry registry();
/// The builder of a planned kernel's family.
Build builder(std::string_view family);

}  // namespace braze::cpu
