// Max and average pooling in either layout, 1-D to 3-D.
//
// Channels-last, large 2-D windows are separable: first along w into scratch rows, then along h.
#include <fmt/format.h>

#include <algorithm>

#include "graph/window.hpp"
#include "kernels/cpu/epilogue.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cpu/pool_loops.hpp"

namespace braze::cpu {
namespace {

constexpr std::int64_t kChunkChannels = 64;  // of one task, channels-last
constexpr std::int64_t kTask = 32768;        // outputs of one task, about

/// One spatial axis: input index = output index * stride - pad + tap * dilation.
struct Axis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  std::vector<float> scale = {1};  // by output: 1 / number of taps that an average counts

  struct Taps {
    std::int64_t first = 0, count = 0;
    std::int64_t begin = 0;  // input index of the first
  };
  /// The taps of output o that are on the image.
  [[nodiscard]] Taps taps(std::int64_t o) const {
    const std::int64_t start = o * stride - pad;
    Taps taps;
    taps.first = start < 0 ? ceil_div(-start, dilation) : 0;
    const std::int64_t end = start < in ? std::min(kernel, ceil_div(in - start, dilation)) : 0;
    taps.count = std::max<std::int64_t>(0, end - taps.first);
    taps.begin = taps.count > 0 ? start + taps.first * dilation : 0;
    return taps;
  }
};

class PoolKernel final : public RowKernel {
 public:
  PoolKernel(const Plan& plan, const KernelPlan& kernel)
      : epilogue_(plan, kernel, kernel.group.members.front()) {
    const Group& group = kernel.group;
    const Node& node = anchor_of(plan.graph, group);
    const Pool& op = *node.as<Pool>();
    x_ = image_of(plan, node.inputs[0]);
    y_ = image_of(plan, group.members.front().result);
    input_ = operand_of(plan, group, node.inputs[0]).input;
    const std::size_t axes = op.window.kernel.size();
    w_ = axis(op, axes - 1, x_.w, y_.w);
    if (axes > 1) h_ = axis(op, axes - 2, x_.h, y_.h);
    if (axes > 2) d_ = axis(op, axes - 3, x_.d, y_.d);
    pixels_ = pool_pixels(op.fn);
    row_ = pool_row(op.fn);
    channels_last_ = y_.channels_last() && x_.channels_last();
    chunk_ = channels_last_ ? std::min(kChunkChannels, y_.c) : 1;
    // Loads and stores of an output: window against row sums, of which each output row adds stride
    // of them.
    const std::int64_t direct = h_.kernel * w_.kernel;
    const std::int64_t separate = (w_.kernel + 1) * std::min(h_.stride, h_.kernel) + h_.kernel;
    separable_ =
        channels_last_ && axes == 2 && h_.kernel > 1 && (2 * direct > 3 * separate || direct > 256);
    band_ = std::clamp<std::int64_t>(kTask / (y_.w * chunk_), separable_ ? h_.kernel : 1, h_.out);
    if (separable_)
      scratch_rows_ =
          std::min((band_ - 1) * h_.stride + window_extent(h_.kernel, h_.dilation), h_.in);
  }

  [[nodiscard]] std::size_t workspace_bytes(std::size_t threads) const override {
    return threads * static_cast<std::size_t>(scratch_floats()) * sizeof(float);
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t chunks = ceil_div(y_.c, chunk_);
    const std::int64_t bands = ceil_div(h_.out, band_);
    const auto tasks = static_cast<std::size_t>(y_.n * d_.out * bands * chunks);
    parallel_for(arguments.pool, tasks, [&](std::size_t task, std::size_t worker) {
      auto rest = static_cast<std::int64_t>(task);
      const std::int64_t channel = rest % chunks * chunk_;
      rest /= chunks;
      const std::int64_t begin = rest % bands * band_;
      rest /= bands;
      Part part;
      part.channel = channel;
      part.channels = std::min(chunk_, y_.c - channel);
      part.oz = rest % d_.out;
      part.n = rest / d_.out;
      part.begin = begin;
      part.end = std::min(begin + band_, h_.out);
      run_part(arguments, part,
               static_cast<float*>(arguments.workspace) +
                   static_cast<std::int64_t>(worker) * scratch_floats());
    });
  }

  [[nodiscard]] std::size_t row_workspace_bytes() const override { return workspace_bytes(1); }
  void run_rows(const KernelArguments& arguments, std::int64_t n, std::int64_t begin,
                std::int64_t end) const noexcept override {
    Part part;
    part.n = n;
    for (part.begin = begin; part.begin < end; part.begin += band_) {
      part.end = std::min(part.begin + band_, end);
      for (part.channel = 0; part.channel < y_.c; part.channel += chunk_) {
        part.channels = std::min(chunk_, y_.c - part.channel);
        run_part(arguments, part, static_cast<float*>(arguments.workspace));
      }
    }
  }

 private:
  /// What one task computes: output rows [begin, end) of plane oz, some channels.
  struct Part {
    std::int64_t n = 0, oz = 0, begin = 0, end = 0, channel = 0, channels = 0;
    const float* in = nullptr;  // image n, first channel
    float* out = nullptr;       // and plane oz
  };

  static Axis axis(const Pool& op, std::size_t i, std::int64_t in, std::int64_t out) {
    const Window& window = op.window;
    Axis axis{
        in, out, window.kernel[i], window.strides[i], window.dilations[i], window.pads_begin[i],
        {}};
    for (std::int64_t o = 0; o < out; ++o) {
      std::int64_t count = axis.taps(o).count;
      if (op.count_include_pad) {  // the window may still stick out of the padding at the end
        const std::int64_t room = in + window.pads_end[i] - (o * axis.stride - axis.pad);
        count = std::clamp<std::int64_t>(ceil_div(std::max<std::int64_t>(room, 0), axis.dilation),
                                         0, axis.kernel);
      }
      axis.scale.push_back(1.0F / static_cast<float>(std::max<std::int64_t>(count, 1)));
    }
    return axis;
  }

  /// A row of output pixels, channels-last: those whose windows are cut off by the sides one by
  /// one, the others together. `pixels` holds what they have in common; `in` is column 0 of its
  /// rows.
  void for_columns(PoolPixels pixels, const float* in, std::int64_t in_pixel, float* out,
                   float scale) const noexcept {
    for (std::int64_t o = 0; o < w_.out;) {
      const Axis::Taps taps = w_.taps(o);
      std::int64_t end = o + 1;
      if (taps.count == w_.kernel) {
        const std::int64_t room = w_.in - 1 - (w_.kernel - 1) * w_.dilation + w_.pad;
        end = std::min(w_.out, room / w_.stride + 1);
      }
      pixels.in = in + taps.begin * in_pixel;
      pixels.in_pixel = w_.stride * in_pixel;
      pixels.out = out + o * pixels.out_pixel;
      pixels.taps.count_w = taps.count;
      pixels.taps.step_w = w_.dilation * in_pixel;
      pixels.pixels = end - o;
      pixels.scale = scale * w_.scale[static_cast<std::size_t>(o)];
      pixels_(pixels);
      o = end;
    }
  }

  void window_row(const Part& part, std::int64_t oy) const noexcept {
    const Axis::Taps d = d_.taps(part.oz), h = h_.taps(oy);
    PoolPixels pixels;
    pixels.channels = part.channels;
    pixels.out_pixel = y_.stride_w;
    pixels.taps.count_d = d.count;
    pixels.taps.step_d = d_.dilation * x_.stride_d;
    pixels.taps.count_h = h.count;
    pixels.taps.step_h = h_.dilation * x_.stride_h;
    for_columns(pixels, part.in + d.begin * x_.stride_d + h.begin * x_.stride_h, x_.stride_w,
                part.out + oy * y_.stride_h, scale_of(part.oz, oy));
  }

  void model_row(const Part& part, std::int64_t oy) const noexcept {
    const Axis::Taps d = d_.taps(part.oz), h = h_.taps(oy);
    PoolRow row;
    row.in = part.in + d.begin * x_.stride_d + h.begin * x_.stride_h;
    row.out = part.out + oy * y_.stride_h;
    row.taps = {
        d.count,    h.count, w_.kernel, d_.dilation * x_.stride_d, h_.dilation * x_.stride_h,
        w_.dilation};
    row.in_width = w_.in;
    row.out_width = w_.out;
    row.stride_w = w_.stride;
    row.pad_w = w_.pad;
    row.scale_w = w_.scale.data();
    row.scale = scale_of(part.oz, oy);
    row_(row);
  }

  void run_part(const KernelArguments& arguments, Part part, float* scratch) const noexcept {
    part.in = static_cast<const float*>(arguments.inputs[static_cast<std::size_t>(input_)]) +
              part.n * x_.stride_n + part.channel * x_.stride_c;
    part.out = static_cast<float*>(arguments.outputs[0]) + part.n * y_.stride_n +
               part.channel * y_.stride_c + part.oz * y_.stride_d;
    if (separable_) {
      separate(part, scratch);
    } else {
      for (std::int64_t oy = part.begin; oy < part.end; ++oy) {
        if (channels_last_) {
          window_row(part, oy);
        } else {
          model_row(part, oy);
        }
      }
    }
    finish(arguments, part);
  }

  /// Rows under the windows of part, each pooled along w into scratch; then those along h.
  void separate(const Part& part, float* scratch) const noexcept {
    std::int64_t first = h_.in, last = -1;  // input rows in use
    for (std::int64_t oy = part.begin; oy < part.end; ++oy) {
      const Axis::Taps taps = h_.taps(oy);
      if (taps.count == 0) continue;
      first = std::min(first, taps.begin);
      last = std::max(last, taps.begin + (taps.count - 1) * h_.dilation);
    }
    PoolPixels along_w;
    along_w.channels = part.channels;
    along_w.out_pixel = part.channels;
    const std::int64_t row = y_.w * part.channels;
    for (std::int64_t iy = first; iy <= last; ++iy) {
      for_columns(along_w, part.in + iy * x_.stride_h, x_.stride_w, scratch + (iy - first) * row,
                  1);
    }
    for (std::int64_t oy = part.begin; oy < part.end; ++oy) {
      const Axis::Taps taps = h_.taps(oy);
      PoolPixels along_h;
      along_h.in = scratch + (taps.count > 0 ? taps.begin - first : 0) * row;
      along_h.in_pixel = part.channels;
      along_h.out = part.out + oy * y_.stride_h;
      along_h.out_pixel = y_.stride_w;
      along_h.taps.count_h = taps.count;
      along_h.taps.step_h = h_.dilation * row;
      along_h.pixels = y_.w;
      along_h.channels = part.channels;
      along_h.scale = h_.scale[static_cast<std::size_t>(oy)];
      pixels_(along_h);
    }
  }

  void finish(const KernelArguments& arguments, const Part& part) const noexcept {
    if (epilogue_.empty()) return;
    Tile tile;
    tile.data = part.out + part.begin * y_.stride_h;
    tile.n = part.n;
    tile.pixel = (part.oz * h_.out + part.begin) * w_.out;
    tile.pixels = (part.end - part.begin) * w_.out;
    tile.stride_pixel = y_.stride_w;
    tile.channel = part.channel;
    tile.channels = part.channels;
    tile.stride_channel = y_.stride_c;
    epilogue_.apply(arguments, tile);
  }

  [[nodiscard]] float scale_of(std::int64_t oz, std::int64_t oy) const noexcept {
    return d_.scale[static_cast<std::size_t>(oz)] * h_.scale[static_cast<std::size_t>(oy)];
  }
  [[nodiscard]] std::int64_t scratch_floats() const { return scratch_rows_ * y_.w * chunk_; }

  TileEpilogue epilogue_;
  Image x_, y_;
  Axis d_, h_, w_;
  int input_ = 0;
  bool channels_last_ = false;
  bool separable_ = false;
  std::int64_t chunk_ = 1;  // channels of one task
  std::int64_t band_ = 1;   // output rows of one task
  std::int64_t scratch_rows_ = 0;
  PoolPixelsFn pixels_ = nullptr;
  PoolRowFn row_ = nullptr;
};

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.as<Pool>() == nullptr) return Support::no("op", "only Pool");
  const Value& x = graph.value(node.inputs[0]);
  if (x.dtype != DType::kFloat32)
    return Support::no("dtype", fmt::format("pools {}; takes fp32", to_string(x.dtype)));
  if (node.output(1) != kNoValue)
    return Support::no("indices", "the indices of the maxima are asked for");
  if (element_count(x.shape) == 0) return Support::no("empty", "the input has no elements");
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = anchor_of(graph, group);
  const double outputs = static_cast<double>(element_count(graph.value(node.outputs[0]).shape));
  return streaming_work(
      graph, group, outputs * static_cast<double>(element_count(node.as<Pool>()->window.kernel)),
      0.2);
}

}  // namespace

Row pool() {
  KernelFamily family;
  family.name = "pool";
  family.backend = "cpu";
  family.layouts = LayoutRule::kSame;
  family.epilogue = true;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, [](const Plan& plan, const KernelPlan& kernel) -> std::unique_ptr<Kernel> {
            return std::make_unique<PoolKernel>(plan, kernel);
          }};
}

}  // namespace braze::cpu
