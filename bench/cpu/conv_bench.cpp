// Direct and Winograd convolution on the layers that networks are made of: GFLOP/s, and the
// fraction of the multiply-add peak measured beside it. One thread. Options are Google Benchmark's,
// e.g.
//   conv_bench --benchmark_filter=stem
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/cpu/fma_peak.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/isa.hpp"

namespace braze::bench {
namespace {

/// An image [1, channels, size, size] and a square filter, padded to keep the size at stride 1.
struct Layer {
  const char* name;
  std::int64_t channels, outputs, size, kernel, stride, group;
  Layout in, out;
};
constexpr Layout kModel = Layout::kModel;
constexpr Layout kLast = Layout::kChannelsLast;
constexpr Layer kLayers[] = {
    {"frag_a", 32, 64, 128, 3, 1, 1, kModel, kModel},
    {"resnet_3x3_56", 64, 64, 56, 3, 1, 1, kLast, kLast},
    {"resnet_3x3_14", 256, 256, 14, 3, 1, 1, kLast, kLast},
    {"resnet_3x3_7", 512, 512, 7, 3, 1, 1, kLast, kLast},
    {"resnet_stem", 3, 64, 224, 7, 2, 1, kModel, kLast},
    {"resnext_3x3_56", 128, 128, 56, 3, 1, 32, kLast, kLast},
    {"mobile_stem", 3, 16, 224, 3, 2, 1, kModel, kLast},
    {"mobile_stem_320", 3, 32, 320, 3, 2, 1, kModel, kLast},
    {"mobile_expand_112", 16, 96, 112, 1, 1, 1, kLast, kLast},
    {"mobile_expand_56", 24, 144, 56, 1, 1, 1, kLast, kLast},
    {"mobile_project_56", 144, 24, 56, 1, 1, 1, kLast, kLast},
    {"mobile_expand_7", 160, 960, 7, 1, 1, 1, kLast, kLast},
    {"mobile_squeeze", 480, 120, 1, 1, 1, 1, kLast, kLast},
    {"shuffle_58_28", 58, 58, 28, 1, 1, 1, kLast, kLast},
    {"shuffle_232_7", 232, 232, 7, 1, 1, 1, kLast, kLast},
    {"super_5x5", 1, 64, 224, 5, 1, 1, kModel, kModel},
    {"super_3x3_64", 64, 64, 224, 3, 1, 1, kModel, kModel},
    {"super_3x3_32", 64, 32, 224, 3, 1, 1, kModel, kModel},
    {"super_3x3_9", 32, 9, 224, 3, 1, 1, kModel, kModel},
};

Tensor random_tensor(Shape shape, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Tensor tensor = Tensor::make(DType::kFloat32, std::move(shape));
  for (std::int64_t i = 0; i < tensor.count(); ++i) tensor.as<float>()[i] = uniform(generator);
  return tensor;
}

/// A layer as a plan with one kernel, and its data.
class Problem {
 public:
  Problem(const Layer& layer, const cpu::Row& row) : layer_(layer), pad_(layer.kernel / 2) {
    size_out_ = (layer.size + 2 * pad_ - layer.kernel) / layer.stride + 1;
    const Shape x{1, layer.channels, layer.size, layer.size};
    const Shape y{1, layer.outputs, size_out_, size_out_};
    x_ = random_tensor(x, 1);
    y_ = Tensor::make(DType::kFloat32, y);
    w_ =
        random_tensor({layer.outputs, layer.channels / layer.group, layer.kernel, layer.kernel}, 2);

    Graph& graph = plan_.graph;
    const ValueId x_id = graph.add_value("x", DType::kFloat32, x);
    const ValueId w_id = graph.add_constant("w", w_);
    const ValueId y_id = graph.add_value("y", DType::kFloat32, y);
    Conv conv;
    conv.window = {.kernel = {layer.kernel, layer.kernel},
                   .strides = {layer.stride, layer.stride},
                   .dilations = {1, 1},
                   .pads_begin = {pad_, pad_},
                   .pads_end = {pad_, pad_}};
    conv.group = layer.group;
    Group group;
    group.members.push_back({.anchor = graph.add_node(conv, {x_id, w_id}, {y_id}, "conv", {}),
                             .epilogue = {},
                             .result = y_id});
    group.inputs = {x_id};
    group.outputs = {y_id};

    plan_.device = cpu_device(1);
    plan_.placements.resize(3);
    plan_.placements[0] = {.memory = Memory::kArena, .layout = layer.in, .pitch = layer.channels};
    plan_.placements[1] = {.memory = Memory::kConstant};
    plan_.placements[2] = {.memory = Memory::kArena, .layout = layer.out, .pitch = layer.outputs};
    KernelPlan kernel;
    kernel.family = row.family.name;
    kernel.candidate = row.family.candidates(graph, group, plan_.device).front();
    kernel.group = std::move(group);
    plan_.kernels.push_back(std::move(kernel));
    kernel_ = row.build(plan_, plan_.kernels.front());
    workspace_ =
        Tensor::make(DType::kUInt8, {static_cast<std::int64_t>(kernel_->workspace_bytes(1))});
  }

  void run() {
    const void* inputs[] = {x_.data()};
    void* outputs[] = {y_.data()};
    kernel_->run({inputs, outputs, workspace_.data(), nullptr});
  }

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(y_.count()) * static_cast<double>(w_.count()) /
           static_cast<double>(layer_.outputs);
  }

  /// Largest error of some outputs, over the sum of their terms' magnitudes.
  [[nodiscard]] double error() const {
    double worst = 0;
    for (std::int64_t i = 0; i < 200; ++i) {
      const std::int64_t at = i * 7919 % y_.count();
      const std::int64_t k = at / (size_out_ * size_out_);
      const std::int64_t row = at / size_out_ % size_out_;
      const std::int64_t column = at % size_out_;
      const auto [value, magnitude] = reference(k, row, column);
      const double got =
          y_.as<float>()[offset(layer_.out, layer_.outputs, size_out_, k, row, column)];
      worst = std::max(worst, std::fabs(got - value) / magnitude);
    }
    return worst;
  }

 private:
  static std::int64_t offset(Layout layout, std::int64_t channels, std::int64_t size,
                             std::int64_t c, std::int64_t row, std::int64_t column) {
    return layout == kLast ? (row * size + column) * channels + c
                           : (c * size + row) * size + column;
  }

  [[nodiscard]] std::pair<double, double> reference(std::int64_t k, std::int64_t row,
                                                    std::int64_t column) const {
    const std::int64_t channels = layer_.channels / layer_.group;
    const std::int64_t first = k / (layer_.outputs / layer_.group) * channels;
    double value = 0;
    double magnitude = 1e-30;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t tap = 0; tap < layer_.kernel * layer_.kernel; ++tap) {
        const std::int64_t y = row * layer_.stride - pad_ + tap / layer_.kernel;
        const std::int64_t x = column * layer_.stride - pad_ + tap % layer_.kernel;
        if (y < 0 || x < 0 || y >= layer_.size || x >= layer_.size) continue;
        const double term =
            static_cast<double>(
                x_.as<float>()[offset(layer_.in, layer_.channels, layer_.size, first + c, y, x)]) *
            static_cast<double>(
                w_.as<float>()[(k * channels + c) * layer_.kernel * layer_.kernel + tap]);
        value += term;
        magnitude += std::fabs(term);
      }
    }
    return {value, magnitude};
  }

  Layer layer_;
  std::int64_t pad_ = 0, size_out_ = 0;
  Tensor x_, w_, y_, workspace_;
  Plan plan_;
  std::unique_ptr<cpu::Kernel> kernel_;
};

/// Rates count the direct form's operations, whatever the family does.
void run_layer(benchmark::State& state, const Layer& layer, const cpu::Row& row,
               const std::string& isa) {
  cpu::force_isa(isa);
  Problem problem(layer, row);
  problem.run();
  if (problem.error() > 1e-5) return state.SkipWithError("wrong result");
  for (auto _ : state) problem.run();
  state.counters["flops"] =
      benchmark::Counter(problem.flops(), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["of_peak"] = benchmark::Counter(problem.flops() / fma_peak(),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace
}  // namespace braze::bench

int main(int argc, char** argv) {
  using namespace braze;
  for (const std::string& isa : cpu::supported_isas()) {
    if (isa == "SCALAR" || isa == "EMU128") continue;
    for (const bench::Layer& layer : bench::kLayers) {
      benchmark::RegisterBenchmark((isa + "/" + layer.name).c_str(), bench::run_layer, layer,
                                   cpu::conv_direct(), isa)
          ->Unit(benchmark::kMicrosecond);
      if (layer.kernel != 3 || layer.stride != 1 || layer.group != 1) continue;
      benchmark::RegisterBenchmark((isa + "/" + layer.name + "/winograd").c_str(), bench::run_layer,
                                   layer, cpu::conv_winograd(), isa)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
