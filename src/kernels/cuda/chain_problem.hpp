// A chain of convolutions as numbers: what a group of several members computes, stage by stage.
// A product of matrices is a convolution, too (target/image_conv.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/tile.hpp"
#include "target/problem.hpp"

namespace braze::cuda {

/// What a member does to the image it reads.
enum class StageKind : std::uint8_t {
  kDense,      // convolution of all channels; products of matrices too
  kDepthwise,  // convolution of each channel by itself
  kMaxPool,
  kAveragePool,
  kPointwise,  // the epilogue only
};

/// Where a stage finds an image.
struct ChainSource {
  enum class Of : std::uint8_t {
    kInput,   // the chain's input
    kStage,   // the result of an earlier stage
    kMemory,  // another tensor in memory: operands only
  };
  Of of = Of::kInput;
  std::size_t stage = 0;  // kStage
  bool operator==(const ChainSource&) const = default;
};

/// A residual: an operand of a step that is as large as the stage's result.
struct ChainOperand {
  std::size_t step = 0;  // of ChainStage::epilogue
  ValueId id = kNoValue;
  ChainSource source;
};

struct ChainStage {
  StageKind kind = StageKind::kDense;
  std::size_t member = 0;  // of the group
  ChainSource reads;
  std::int64_t channels = 1, outputs = 1;  // of what it reads and makes
  // Rows, columns.
  std::array<std::int64_t, 2> in{1, 1}, out{1, 1}, kernel{1, 1}, stride{1, 1}, dilation{1, 1},
      pad{0, 0};
  Region counted{};            // kAveragePool: pixels of a window that its mean is over
  ValueId weights = kNoValue;  // of a convolution, a constant
  std::int64_t output_stride = 1, channel_stride = 1;  // elements of weights; taps are adjacent
  ValueId bias = kNoValue;                             // of a convolution, where there is one
  Epilogue epilogue;  // after the bias; a pointwise member's own function is its first step
  std::vector<ChainOperand> operands;  // by step
  ValueId result = kNoValue;           // after the epilogue
  bool stored = false;                 // result is in memory, of all but the last: too

  [[nodiscard]] bool is_conv() const {
    return kind == StageKind::kDense || kind == StageKind::kDepthwise;
  }
  [[nodiscard]] std::int64_t taps() const { return kernel[0] * kernel[1]; }
  /// Multiplications and additions for `pixels` of its result.
  [[nodiscard]] double flops(double pixels) const;
};

struct ChainProblem {
  DType dtype = DType::kFloat32;  // that members compute in: of weights and of results between
  std::int64_t batch = 1;
  ValueId input = kNoValue;  // what the first stage reads; loaded_value() says what lies in memory
  std::int64_t channels = 1;
  std::array<std::int64_t, 2> extent{1, 1};  // of the input: rows, columns
  std::vector<ChainStage> stages;            // in order; stage i is member i
  GroupTiles tiles;                          // tiles.members()[i] is stage i

  [[nodiscard]] const ChainStage& last() const { return stages.back(); }
  /// Stages that read a stage's result, as their image or as an operand.
  [[nodiscard]] std::vector<std::size_t> readers(std::size_t stage) const;
};

/// The group as a chain of at least two convolutions over one image, with constant weights. Nothing
/// if it has another shape; then `why` has a rule and a reason if it nearly had this one.
std::optional<ChainProblem> read_chain(const Graph& graph, const Group& group, Support& why);
/// Of a group that a family's joins() takes.
ChainProblem read_chain(const Graph& graph, const Group& group);

/// The stage's member for an EpilogueEmitter: its anchor and result, and the stage's epilogue.
Group::Member member_of(const Group& group, const ChainStage& stage);

}  // namespace braze::cuda
