#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"
#include "kernels/cpu/chain_rows.hpp"

namespace braze::cpu {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kMostInputs = 8;  // of a member
std::size_t whole_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

class ChainRowsKernel final : public Kernel {
 public:
  ChainRowsKernel(const Plan& plan, const KernelPlan& kernel, const Tiling& tiling,
                  std::vector<std::unique_ptr<RowKernel>> parts) {
    const std::optional<GroupTiles> tiles = GroupTiles::of(plan.graph, kernel.group, nullptr);
    ensure(tiles.has_value() && parts.size() == tiles->members().size(), "a group of images");
    batch_ = tiles->batch();
    schedule_ = row_schedule(*tiles, tiling);
    for (std::size_t i = 0; i < tiles->images().size(); ++i) {
      Buffer& buffer = buffers_.emplace_back();
      if (schedule_.capacity[i] == 0) continue;
      const Image image = image_of(plan, tiles->images()[i].id);
      ensure(image.channels_last() || image.c == 1, "intermediates of a group are channels-last");
      buffer.image = image.stride_n * static_cast<std::int64_t>(sizeof(float));
      // Of one row a stride along rows says nothing.
      buffer.row = (image.h == 1 ? image.stride_n : image.stride_h) *
                   static_cast<std::int64_t>(sizeof(float));
      buffer.offset = bytes_;
      bytes_ += whole_lines(static_cast<std::size_t>(schedule_.capacity[i] * buffer.row));
    }
    std::size_t scratch = 0;
    for (std::size_t m = 0; m < parts.size(); ++m) {
      Part& part = parts_.emplace_back();
      for (const ValueId id : part_of(plan.graph, kernel.group, m).inputs)
        part.inputs.push_back(source_of(*tiles, kernel.group, id));
      const ValueId result = kernel.group.members[m].result;
      part.output = source_of(*tiles, kernel.group, result);
      if (m + 1 < parts.size()) {
        part.stored = output_index(kernel.group, result);
        part.image = image_of(plan, result);
      } else {
        part.output.memory = output_index(kernel.group, result);
      }
      ensure(part.inputs.size() <= kMostInputs, "a member of few inputs");
      scratch = std::max(scratch, parts[m]->row_workspace_bytes());
      part.kernel = std::move(parts[m]);
    }
    scratch_ = bytes_;
    bytes_ += whole_lines(scratch);
  }

  [[nodiscard]] std::size_t workspace_bytes(std::size_t threads) const override {
    return threads * bytes_;
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const auto bands = static_cast<std::int64_t>(schedule_.bands.size());
    parallel_for(arguments.pool, static_cast<std::size_t>(batch_ * bands),
                 [&](std::size_t task, std::size_t worker) {
                   const auto index = static_cast<std::int64_t>(task);
                   run_band(arguments, index / bands,
                            schedule_.bands[static_cast<std::size_t>(index % bands)],
                            static_cast<std::byte*>(arguments.workspace) + worker * bytes_);
                 });
  }

 private:
  /// Rows of an intermediate. Sizes in bytes.
  struct Buffer {
    std::size_t offset = 0;  // in a worker's workspace
    std::int64_t image = 0, row = 0;
  };
  /// What a member reads or writes: memory, or a buffer.
  struct Source {
    int memory = -1;  // index in KernelArguments::inputs; of the last member's result: ::outputs
    std::size_t image = 0;
  };
  struct Part {
    std::unique_ptr<RowKernel> kernel;
    std::vector<Source> inputs;
    Source output;
    int stored = -1;  // an intermediate that is stored too: index in KernelArguments::outputs
    Image image;      // then, in memory
  };

  static Source source_of(const GroupTiles& tiles, const Group& group, ValueId id) {
    Source source;
    for (std::size_t i = 0; i < tiles.images().size(); ++i) {
      if (tiles.images()[i].id == id) source.image = i;
    }
    const auto input = std::ranges::find(group.inputs, id);
    if (input != group.inputs.end()) source.memory = static_cast<int>(input - group.inputs.begin());
    return source;
  }

  void run_band(const KernelArguments& arguments, std::int64_t n, const RowSchedule::Band& band,
                std::byte* workspace) const noexcept {
    for (const RowSchedule::Step& step : band.steps) {
      for (const RowSchedule::Shift& shift : step.shifts) {
        const Buffer& buffer = buffers_[shift.image];
        std::byte* const begin = workspace + buffer.offset;
        std::memmove(begin, begin + shift.from * buffer.row,
                     static_cast<std::size_t>(shift.count * buffer.row));
      }
      for (std::size_t m = 0; m < parts_.size(); ++m) {
        if (step.rows[m].size() == 0) continue;
        const Part& part = parts_[m];
        // Where the whole image would lie if the buffer were a part of it.
        const auto virtual_image = [&](const Source& source) -> void* {
          const Buffer& buffer = buffers_[source.image];
          return workspace + static_cast<std::ptrdiff_t>(buffer.offset) - n * buffer.image -
                 step.base[source.image] * buffer.row;
        };
        std::array<const void*, kMostInputs> inputs{};
        for (std::size_t i = 0; i < part.inputs.size(); ++i) {
          const Source& source = part.inputs[i];
          inputs[i] = source.memory >= 0 ? arguments.inputs[static_cast<std::size_t>(source.memory)]
                                         : virtual_image(source);
        }
        void* output = part.output.memory >= 0
                           ? arguments.outputs[static_cast<std::size_t>(part.output.memory)]
                           : virtual_image(part.output);
        part.kernel->run_rows({.inputs = std::span(inputs).first(part.inputs.size()),
                               .outputs = std::span(&output, 1),
                               .workspace = workspace + scratch_},
                              n, step.rows[m].begin, step.rows[m].end);
        if (part.stored >= 0) {
          const Interval& owned = band.owned[part.output.image];
          store(part.image, static_cast<const float*>(output),
                static_cast<float*>(arguments.outputs[static_cast<std::size_t>(part.stored)]), n,
                {std::max(step.rows[m].begin, owned.begin), std::min(step.rows[m].end, owned.end)});
        }
      }
    }
  }

  /// Copies rows of image n; what lies between its pixels is not touched.
  static void store(const Image& image, const float* from, float* to, std::int64_t n,
                    const Interval& rows) {
    const bool dense = image.stride_w == image.c;
    const std::int64_t pixels = dense ? 1 : image.w;
    const auto bytes =
        static_cast<std::size_t>(dense ? image.w * image.c : image.c) * sizeof(float);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t at = n * image.stride_n + row * image.stride_h;
      for (std::int64_t p = 0; p < pixels; ++p)
        std::memcpy(to + at + p * image.stride_w, from + at + p * image.stride_w, bytes);
    }
  }

  std::int64_t batch_ = 1;
  RowSchedule schedule_;
  std::vector<Buffer> buffers_;  // by image
  std::vector<Part> parts_;
  std::size_t scratch_ = 0;  // offset of the members' own scratch in a worker's workspace
  std::size_t bytes_ = 0;    // of a worker
};

}  // namespace

std::unique_ptr<Kernel> chain_rows_kernel(const Plan& plan, const KernelPlan& kernel,
                                          const Tiling& tiling,
                                          std::vector<std::unique_ptr<RowKernel>> parts) {
  return std::make_unique<ChainRowsKernel>(plan, kernel, tiling, std::move(parts));
}

}  // namespace braze::cpu
