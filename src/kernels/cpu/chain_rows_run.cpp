#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"
#include "kernels/cpu/chain_rows.hpp"
#include "plan/parts.hpp"

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
    const Sources sources(plan, kernel.group, *tiles);
    for (std::size_t i = 0; i < tiles->images().size(); ++i) {
      Buffer& buffer = buffers_.emplace_back();
      if (schedule_.capacity[i] == 0 || !sources.has_buffer(i)) continue;
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
        part.inputs.push_back(sources.of(id));
      const ValueId result = kernel.group.members[m].result;
      part.output = sources.of(result);
      if (m + 1 < parts.size()) {
        part.stored = output_index(kernel.group, result);
        part.image = image_of(plan, result);
      }
      ensure(part.inputs.size() <= kMostInputs, "a member of few inputs");
      scratch = std::max(scratch, parts[m]->row_workspace_bytes());
      part.kernel = std::move(parts[m]);
    }
    scratch_ = bytes_;
    bytes_ += whole_lines(scratch);
    for (RowSchedule::Band& band : schedule_.bands) {
      for (RowSchedule::Step& step : band.steps) {
        std::erase_if(step.shifts,
                      [this](const auto& shift) { return buffers_[shift.image].row == 0; });
      }
    }
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
    int input = -1, output = -1;  // index in KernelArguments; else there is a buffer
    std::size_t image = 0;
    std::int64_t channel = 0;  // of a part, in the image where it lies
  };
  struct Part {
    std::unique_ptr<RowKernel> kernel;
    std::vector<Source> inputs;
    Source output;
    int stored = -1;  // an intermediate that is stored too: index in KernelArguments::outputs
    Image image;      // then, in memory
  };

  /// Where values lie: what is a part of another one, there.
  class Sources {
   public:
    Sources(const Plan& plan, const Group& group, const GroupTiles& tiles)
        : plan_(plan), group_(group), tiles_(tiles), parts_(parts_of(plan.graph, group)) {}

    /// Is an intermediate no part of another image, and made at all?
    [[nodiscard]] bool has_buffer(std::size_t image) const {
      const ValueId id = tiles_.images()[image].id;
      const NodeId producer = plan_.graph.producer(id);
      return of(id).image == image && !is_zipped(plan_.graph, group_, plan_.graph.node(producer));
    }

    [[nodiscard]] Source of(ValueId id) const {
      Source source;
      for (auto part = parts_.find(id);
           part != parts_.end() && lies_inside(plan_, id, part->second.whole);
           part = parts_.find(id)) {
        source.channel += part->second.channel;
        id = part->second.whole;
      }
      for (std::size_t i = 0; i < tiles_.images().size(); ++i) {
        if (tiles_.images()[i].id == id) source.image = i;
      }
      const auto input = std::ranges::find(group_.inputs, id);
      if (input != group_.inputs.end())
        source.input = static_cast<int>(input - group_.inputs.begin());
      if (id == group_.members.back().result) source.output = output_index(group_, id);
      return source;
    }

   private:
    const Plan& plan_;
    const Group& group_;
    const GroupTiles& tiles_;
    std::map<ValueId, PartOf> parts_;
  };

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
        // Of a buffer: where the whole image would lie if it were a part of it.
        const auto written = [&](const Source& source) {
          const Buffer& buffer = buffers_[source.image];
          void* const image = source.output >= 0
                                  ? arguments.outputs[static_cast<std::size_t>(source.output)]
                                  : workspace + static_cast<std::ptrdiff_t>(buffer.offset) -
                                        n * buffer.image - step.base[source.image] * buffer.row;
          return static_cast<float*>(image) + source.channel;
        };
        std::array<const void*, kMostInputs> inputs{};
        for (std::size_t i = 0; i < part.inputs.size(); ++i) {
          const Source& source = part.inputs[i];
          inputs[i] = source.input >= 0
                          ? static_cast<const float*>(
                                arguments.inputs[static_cast<std::size_t>(source.input)]) +
                                source.channel
                          : written(source);
        }
        void* output = written(part.output);
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
