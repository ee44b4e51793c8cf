// A Graph to an ONNX model: to keep a graph that a test found, and to look at one with other tools.
#pragma once

#include <filesystem>
#include <string>

#include "graph/graph.hpp"

namespace braze {

/// The bytes of an ONNX model (IR version 8, opset 17) that computes what the resolved graph
/// computes. Operators that ONNX does not have there (Silu, Mish, Gelu, ChannelShuffle) are spelled
/// with those it has. Nodes are named by their ids. kUnsupported naming the node for what opset 17
/// cannot say (antialiased Resize, wrapping Pad, dilated AveragePool); kModelInvalid for more than
/// 2 GB of constants.
std::string write_onnx(const Graph& graph);

/// The same to a file. kIo as FileWriter.
void write_onnx(const Graph& graph, const std::filesystem::path& file);

}  // namespace braze
