// Members of a group that runs row by row and that only move elements: Concat, Slice and Split
// along channels, ChannelShuffle, and Resize where it repeats pixels. A row of the result is a few
// boxes, each of one row of an input; what lies where it belongs already (plan/parts.hpp) is not
// copied.
#include <algorithm>
#include <array>

#include "kernels/cpu/chain_rows.hpp"
#include "kernels/cpu/copy_kernel.hpp"
#include "kernels/cpu/zip_pixels.hpp"
#include "plan/parts.hpp"

namespace braze::cpu {
namespace {

constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));

class RowCopy final : public RowKernel {
 public:
  RowCopy() = default;
  RowCopy(const Plan& plan, const KernelPlan& part, const std::map<ValueId, ValueId>& inside)
      : y_(image_of(plan, part.group.outputs[0])) {
    const Graph& graph = plan.graph;
    const Node& node = anchor_of(graph, part.group);
    const ValueId result = part.group.outputs[0];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      const bool together = node.as<Concat>() != nullptr;
      const auto part_of = inside.find(together ? id : result);
      if (part_of != inside.end() && part_of->second == (together ? result : id)) continue;
      const Image x = image_of(plan, id);
      add(operand_of(plan, part.group, id).input, x, box_of(graph, node, i, result, x));
    }
  }

  /// A ChannelShuffle that reads the inputs of a Concat.
  RowCopy(const Plan& plan, const KernelPlan& part, const Node& concat)
      : y_(image_of(plan, part.group.outputs[0])) {
    const auto& shuffle = *anchor_of(plan.graph, part.group).as<ChannelShuffle>();
    for (std::size_t i = 0; i < concat.inputs.size(); ++i) {
      const Image x = image_of(plan, concat.inputs[i]);
      add(operand_of(plan, part.group, concat.inputs[i]).input, x,
          shuffled(shuffle, x, first_channel(plan.graph, concat, i)));
    }
  }

  void run(const KernelArguments& arguments) const noexcept override {
    for (std::int64_t n = 0; n < y_.n; ++n) run_rows(arguments, n, 0, y_.h);
  }

  void run_rows(const KernelArguments& arguments, std::int64_t n, std::int64_t begin,
                std::int64_t end) const noexcept override {
    for (const Piece& piece : pieces_) {
      const auto* const x =
          static_cast<const float*>(arguments.inputs[static_cast<std::size_t>(piece.input)]) +
          n * piece.x.stride_n;
      float* const y = static_cast<float*>(arguments.outputs[0]) + n * y_.stride_n;
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t task = 0; task < piece.row.tasks(); ++task)
          piece.row.run_task(task, x + row / piece.repeat * piece.x.stride_h,
                             y + row * y_.stride_h);
      }
    }
  }

 private:
  struct Piece {
    int input = 0;
    Image x;
    std::int64_t repeat = 1;  // rows of the result that are the same row of the input
    StridedCopy row;
  };

  void add(int input, const Image& x, StridedCopy row) {
    pieces_.push_back({input, x, y_.h / x.h, std::move(row)});
  }

  /// Whole groups of a ChannelShuffle, the first of which is of channel `channel`.
  StridedCopy shuffled(const ChannelShuffle& shuffle, const Image& x, std::int64_t channel) const {
    const std::int64_t each = y_.c / shuffle.groups;
    const std::int64_t from_c = x.stride_c * kFloat, to_c = y_.stride_c * kFloat;
    return {kFloat,
            {{y_.w, x.stride_w * kFloat, y_.stride_w * kFloat},
             {x.c / each, each * from_c, to_c},
             {each, from_c, shuffle.groups * to_c}},
            0,
            channel / each * to_c};
  }

  /// What a row of the result has of input `i`, as a copy of a row of it.
  StridedCopy box_of(const Graph& graph, const Node& node, std::size_t i, ValueId result,
                     const Image& x) const {
    const std::int64_t from_w = x.stride_w * kFloat, to_w = y_.stride_w * kFloat;
    const std::int64_t from_c = x.stride_c * kFloat, to_c = y_.stride_c * kFloat;
    const CopyAxis pixels = {y_.w, from_w, to_w};
    if (node.as<Concat>() != nullptr)
      return {kFloat, {pixels, {x.c, from_c, to_c}}, 0, first_channel(graph, node, i) * to_c};
    if (const auto* shuffle = node.as<ChannelShuffle>()) return shuffled(*shuffle, x, 0);
    if (const auto* slice = node.as<Slice>())
      return {kFloat, {pixels, {y_.c, slice->steps[1] * from_c, to_c}}, slice->starts[1] * from_c};
    if (node.as<Split>() != nullptr) {
      std::size_t index = 0;
      while (node.outputs[index] != result) ++index;
      return {kFloat, {pixels, {y_.c, from_c, to_c}}, first_channel(graph, node, index) * from_c};
    }
    const std::int64_t repeat = y_.w / x.w;  // Resize
    return {kFloat, {{x.w, from_w, repeat * to_w}, {repeat, 0, to_w}, {x.c, from_c, to_c}}};
  }

  Image y_;
  std::vector<Piece> pieces_;
};

class RowZip final : public RowKernel {
 public:
  RowZip(const Plan& plan, const KernelPlan& part, const Node& concat)
      : y_(image_of(plan, part.group.outputs[0])), zip_pixels_(zip_pixels_function()) {
    for (std::size_t i = 0; i < 2; ++i) {
      x_[i] = image_of(plan, concat.inputs[i]);
      inputs_[i] = operand_of(plan, part.group, concat.inputs[i]).input;
    }
  }

  void run(const KernelArguments& arguments) const noexcept override {
    for (std::int64_t n = 0; n < y_.n; ++n) run_rows(arguments, n, 0, y_.h);
  }

  void run_rows(const KernelArguments& arguments, std::int64_t n, std::int64_t begin,
                std::int64_t end) const noexcept override {
    const auto row_of = [&](std::size_t i, std::int64_t row) {
      return static_cast<const float*>(arguments.inputs[static_cast<std::size_t>(inputs_[i])]) +
             n * x_[i].stride_n + row * x_[i].stride_h;
    };
    ZipPixels zip;
    zip.a_pixel = x_[0].stride_w;
    zip.b_pixel = x_[1].stride_w;
    zip.y_pixel = y_.stride_w;
    zip.pixels = y_.w;
    zip.channels = x_[0].c;
    for (std::int64_t row = begin; row < end; ++row) {
      zip.a = row_of(0, row);
      zip.b = row_of(1, row);
      zip.y = static_cast<float*>(arguments.outputs[0]) + n * y_.stride_n + row * y_.stride_h;
      zip_pixels_(zip);
    }
  }

 private:
  Image y_;
  std::array<Image, 2> x_;
  std::array<int, 2> inputs_ = {};
  ZipPixelsFn zip_pixels_ = nullptr;
};

}  // namespace

bool is_row_copy(const Graph& graph, const Group::Member& member) {
  const Node& node = graph.node(member.anchor);
  if (!member.epilogue.empty() || element_count(graph.value(member.result).shape) == 0 ||
      !std::ranges::all_of(node.inputs, [&](ValueId id) {
        return id != kNoValue && !graph.value(id).is_constant() &&
               graph.value(id).dtype == DType::kFloat32 && element_count(graph.value(id).shape) > 0;
      }))
    return false;
  if (node.as<ChannelShuffle>() != nullptr) return true;
  if (node.as<Resize>() != nullptr) return region_read(graph, node, 0, nullptr).has_value();
  return moves_channels(graph, node);
}

std::unique_ptr<RowKernel> row_copy(const Plan& plan, const KernelPlan& part,
                                    const std::map<ValueId, ValueId>& inside) {
  return std::make_unique<RowCopy>(plan, part, inside);
}

std::unique_ptr<RowKernel> row_zip(const Plan& plan, const KernelPlan& part, const Node& concat) {
  const bool pairs = anchor_of(plan.graph, part.group).as<ChannelShuffle>()->groups == 2;
  if (pairs && concat.inputs.size() == 2) return std::make_unique<RowZip>(plan, part, concat);
  return std::make_unique<RowCopy>(plan, part, concat);
}

std::unique_ptr<RowKernel> row_nothing() { return std::make_unique<RowCopy>(); }

}  // namespace braze::cpu
