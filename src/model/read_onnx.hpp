// An ONNX model to a Graph.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "braze/braze.hpp"
#include "graph/graph.hpp"

namespace braze {

/// Reads a model: IR version 3 and up, opsets 7 to 23 of the default domain. External data is
/// looked for in `folder` and below, and mapped; initializers keep the model's bytes without a
/// copy.
///
/// The graph is not resolved (see graph/op.hpp): parameters that are inputs in ONNX stay inputs,
/// shapes of values that nodes make are unknown, dtypes are known. Nodes are in topological order;
/// one ONNX node may have become several, with equal origins. A dimension of an input without a
/// number is -1, and its symbol is its name in the model, or "INPUT.AXIS" if it has none ("" or
/// "?").
///
/// Initializers that are also inputs are constants, and no inputs of the graph. ONNX says so up to
/// IR version 3; from 4 on they are defaults that a run may override, which a compiler that works
/// ahead of time does not offer.
///
/// Errors: kModelInvalid (naming the node or tensor) for what is not legal ONNX, kUnsupported for
/// what Braze does not do: one error that names all such nodes.
Graph read_onnx(std::span<const std::byte> bytes, const std::filesystem::path& folder);

/// Inputs and outputs as they are declared, and the model's metadata. Errors: kModelInvalid for
/// what is no ONNX model, kUnsupported for types that Braze does not have.
ModelInfo read_model_info(std::span<const std::byte> bytes);

/// The same from a file, with its folder for external data. kModelInvalid too if there is no such
/// file, kIo if it cannot be read.
Graph read_onnx(const std::filesystem::path& file);

}  // namespace braze
