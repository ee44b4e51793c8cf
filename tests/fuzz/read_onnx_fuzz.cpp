// libFuzzer: bytes of a model file, read, bound and resolved. Whatever they are, the result is a
// graph or an Exception that does not say "internal".
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.hpp"
#include "graph/shape.hpp"
#include "model/bind_dims.hpp"
#include "model/read_onnx.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    braze::Graph graph = braze::read_onnx(std::as_bytes(std::span(data, size)), "/nonexistent");
    braze::bind_dims(graph, {});
    braze::resolve_graph(graph);
  } catch (const braze::Exception& exception) {
    if (exception.error().code == braze::ErrorCode::kInternal) std::abort();
  }
  return 0;
}
