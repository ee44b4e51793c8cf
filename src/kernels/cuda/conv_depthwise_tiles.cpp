// How much of a depthwise convolution a thread makes.
#include <algorithm>
#include <cmath>

#include "graph/window.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/conv_depthwise.hpp"

namespace braze::cuda {

DepthwiseProblem depthwise_problem(const Graph& graph, const Group& group) {
  const Group::Member& member = group.members.front();
  const Node& node = graph.node(member.anchor);
  const Window& window = node.as<Conv>()->window;
  const Shape& x = graph.value(node.inputs[0]).shape;
  const Shape& y = graph.value(node.output()).shape;
  DepthwiseProblem problem;
  problem.n = y[0];
  problem.channels = y[1];
  problem.multiplier = x[1] > 0 ? y[1] / x[1] : 1;
  problem.width = y.back();
  for (std::size_t axis = 2; axis + 1 < y.size(); ++axis) problem.height *= y[axis];
  problem.flat = y.size() <= 4;
  const std::size_t axes = window.kernel.size();
  for (std::size_t i = 0; i < std::min<std::size_t>(2, axes); ++i) {
    const std::size_t to = 1 - i, from = axes - 1 - i;
    problem.kernel[to] = static_cast<int>(window.kernel[from]);
    problem.stride[to] = static_cast<int>(window.strides[from]);
    problem.dilation[to] = static_cast<int>(window.dilations[from]);
  }
  problem.taps = element_count(window.kernel);
  const auto bytes = [&](ValueId id) { return static_cast<int>(size_of(graph.value(id).dtype)); };
  problem.x_bytes = bytes(node.inputs[0]);
  problem.y_bytes = bytes(member.result);
  for (const EpilogueStep& step : member.epilogue.steps) {
    const bool simple =
        !step.unary || step.unary->fn == UnaryFn::kRelu || step.unary->fn == UnaryFn::kClip;
    problem.epilogue += simple ? 2 : 8;
  }
  return problem;
}

namespace {

int most_vector(const DepthwiseProblem& problem) {
  return std::max(problem.x_bytes, problem.y_bytes) == 4 ? 4 : 8;
}
/// Input pixels under `pixels` of the output.
int columns(const DepthwiseProblem& problem, int pixels) {
  return (pixels - 1) * problem.stride[1] + problem.kernel[1];
}
/// Output rows that an input row is under.
int overlapping(const DepthwiseProblem& problem) {
  return static_cast<int>(ceil_div(problem.kernel[0], problem.stride[0]));
}

bool takes_window(const DepthwiseProblem& problem, int pixels) {
  return problem.flat && problem.multiplier == 1 && problem.kernel[0] <= 7 &&
         problem.kernel[1] <= 7 &&
         (pixels == 1 || (problem.dilation[1] == 1 && problem.stride[1] <= 2));
}
bool takes_strip(const DepthwiseProblem& problem) {
  return takes_window(problem, 2) && problem.dilation[0] == 1 &&
         problem.stride[0] == problem.stride[1] && problem.kernel[0] > 1;
}

int registers(const DepthwiseProblem& problem, const DepthwiseTile& tile) {
  const int taps = problem.kernel[0] * problem.kernel[1];
  const int words = (tile.vector * problem.x_bytes + 3) / 4;
  const int wide = columns(problem, tile.pixels);
  if (tile.rows == 1) {
    return taps * words + problem.kernel[0] * wide * words + 2 * tile.pixels * tile.vector + 30;
  }
  const int lines = problem.stride[0];
  return taps * tile.vector + overlapping(problem) * tile.pixels * tile.vector +
         lines * wide * (words + tile.vector / 2) + 22 + 8 * lines;
}

std::int64_t warps(const DepthwiseProblem& problem, const DepthwiseTile& tile) {
  const std::int64_t threads = problem.n * ceil_div(problem.channels, tile.vector) *
                               ceil_div(problem.width, tile.pixels) *
                               ceil_div(problem.height, tile.rows);
  return std::max<std::int64_t>(1, ceil_div(threads, 32));
}

/// Cycles of a warp scheduler: instructions of all its warps, or the latencies of one that others
/// do not hide. Fitted, with kDram, kCache and kPower, to 246 kernels of 41 problems on an H200.
double cycles(const DepthwiseProblem& problem, const DepthwiseTile& tile, const Device& device) {
  constexpr double kStart = 70, kBegin = 12, kConvert = 2, kOfALoad = 5.7, kFinish = 0.26,
                   kEpilogue = 2.6, kOfAStore = 0.9;
  constexpr double kLoadLatency = 50, kStepLatency = 644;
  const double taps = static_cast<double>(problem.taps), vector = tile.vector, pixels = tile.pixels,
               wide = columns(problem, tile.pixels);
  const double converts = problem.x_bytes == 2 ? kConvert * vector : 0;
  const double load = converts + kOfALoad;
  const double finish = pixels * (vector * (kFinish + kEpilogue * problem.epilogue) + kOfAStore);
  const double each =
      static_cast<double>(warps(problem, tile)) / (4.0 * device.units);  // of a scheduler
  const double mine = std::ceil(each);
  // Whole waves where they are few; many even out.
  const auto waves = [&](double resident) {
    return mine < 4 * resident ? std::ceil(mine / resident) : each / resident;
  };
  if (tile.rows == 1) {
    const double instructions = kBegin + taps * (converts + 2) + problem.kernel[0] * wide * load +
                                taps * pixels * vector + finish;
    const double resident =
        std::min(mine, std::max(1.0, std::floor(512.0 / (registers(problem, tile) + 8))));
    return kStart + waves(resident) * std::max(resident, 1.5) * instructions;
  }
  const double lines = problem.stride[0], overlap = overlapping(problem);
  const double start = kBegin + taps * (converts + 2);
  const double step = taps * pixels * vector + lines * wide * load + finish + 12;
  const double steps = tile.rows + overlap - 1;
  const double resident = std::min<double>(mine, depthwise_blocks_per_sm(problem, tile));
  return kStart + waves(resident) * (kLoadLatency + resident * start +
                                     steps * std::max(resident * step, kStepLatency + 1.5 * step));
}

/// Seconds of what is read and written once.
double transfer(const DepthwiseProblem& problem, const Device& device) {
  constexpr double kDram = 1.2, kCache = 0.95;  // of what a copy reaches
  const auto pixels =
      static_cast<double>(problem.n * problem.channels * problem.height * problem.width);
  const double bytes = pixels * (problem.x_bytes * problem.stride[0] * problem.stride[1] /
                                     static_cast<double>(problem.multiplier) +
                                 problem.y_bytes);
  return bytes / (bytes < device.cache_bytes ? kCache * device.cache_bandwidth
                                             : kDram * device.dram_bandwidth);
}

}  // namespace

int depthwise_blocks_per_sm(const DepthwiseProblem& problem, const DepthwiseTile& tile) {
  const int count = registers(problem, tile);
  return count <= 140 ? 4 : count <= 172 ? 3 : 2;
}

double depthwise_seconds(const DepthwiseProblem& problem, const DepthwiseTile& tile,
                         const Device& device) {
  constexpr double kPower = 1.47;      // how much of the shorter the longer hides
  constexpr double kBegun = 0.456e-6;  // beyond Device::launch_us
  const double clock = 0.88 * device.flops_fp32 / (256.0 * device.units);  // under load
  if (!tile.any()) {
    return kBegun + std::pow(std::pow(cycles(problem, tile, device) / clock, kPower) +
                                 std::pow(transfer(problem, device), kPower),
                             1 / kPower);
  }
  // Tap by tap, one after another.
  constexpr double kOfATap = 40;
  const DepthwiseTile narrow{problem.multiplier == 1 ? most_vector(problem) : 1, 1, 1};
  const double mine = static_cast<double>(warps(problem, narrow)) / (4.0 * device.units);
  return (1500 + std::max(1.0, mine) * static_cast<double>(problem.taps) * kOfATap) / clock;
}

std::vector<DepthwiseTile> depthwise_tiles(const DepthwiseProblem& problem, const Device& device) {
  constexpr std::size_t kMost = 6;
  struct Guess {
    double cycles;
    DepthwiseTile tile;
  };
  std::vector<Guess> list;  // fewest cycles first
  const auto consider = [&](const DepthwiseTile& tile) {
    if (registers(problem, tile) > 230) return;
    const Guess guess{cycles(problem, tile, device), tile};
    const auto fewer = [](const Guess& a, const Guess& b) { return a.cycles < b.cycles; };
    list.insert(std::upper_bound(list.begin(), list.end(), guess, fewer), guess);
  };
  for (int vector = most_vector(problem); vector >= 2; vector /= 2) {
    if (problem.channels % vector != 0) continue;
    for (const int pixels : {4, 2, 1}) {
      if (pixels > 1 && pixels > problem.width) continue;
      if (takes_window(problem, pixels)) consider({vector, pixels, 1});
      if (pixels == 1 || !takes_strip(problem)) continue;
      int before = 0;
      for (const std::int64_t strips : {1, 2, 3, 4, 7, 8, 14, 16, 28}) {
        const int rows = static_cast<int>(ceil_div(problem.height, strips));
        if (rows >= 3 && rows != before) consider({vector, pixels, rows});
        before = rows;
      }
    }
  }
  std::vector<DepthwiseTile> tiles;
  for (const Guess& guess : list) {
    if (tiles.size() < kMost) tiles.push_back(guess.tile);
  }
  if (tiles.empty()) tiles.emplace_back();
  return tiles;
}

}  // namespace braze::cuda
