// The epilogue: a short program on a convolution's accumulator (or on any tile), run before the
// tile is stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace braze {

/// How an operand of the epilogue varies, decided from each dimension of its broadcast shape, never
/// from its element count. For an output [N, C, spatial...]:
enum class Broadcast : std::uint8_t {
  kScalar,   // one value
  kChannel,  // varies along C only
  kPixel,    // varies along the spatial axes only: [1|N, 1, spatial...]
  kImage,    // varies along N and C: [N, C, 1, 1] (squeeze-excite scale)
  kFull,     // the output's own shape
};

/// acc = fn(acc), or acc = fn(acc, operand), or acc = fn(operand, acc) when `swapped`; a last step
/// may be the conversion to the type that is stored.
struct EpilogueStep {
  NodeId node = kNoNode;             // the graph node it does
  std::optional<DType> cast;         // set: the last step, a conversion
  std::optional<Unary> unary;        // set: a unary step
  BinaryFn binary = BinaryFn::kAdd;  // otherwise a binary step with
  ValueId operand = kNoValue;        // this operand
  Broadcast broadcast = Broadcast::kScalar;
  bool swapped = false;
};

struct Epilogue {
  std::vector<EpilogueStep> steps;
  [[nodiscard]] bool empty() const { return steps.empty(); }
};

/// The way `operand` broadcasts against `output`, both in numpy's right-aligned sense; nullopt and
/// the reason in `why` if in none of the ways above ("operand [1,1,1,4] varies along W only").
std::optional<Broadcast> classify_broadcast(const Shape& operand, const Shape& output,
                                            std::string* why);

/// "add(channel) relu add(full) clip(0,6)"
std::string print(const Epilogue& epilogue);

}  // namespace braze
