// CUTLASS's fused convolutions as a peer of chains.py: two in one kernel, the second 1x1, fp16,
// channels-last, sums in fp32, each with bias and relu (examples/13_two_tensor_op_fusion). Not part
// of the build; needs CUDA's compiler and CUTLASS's sources, 4.7 for example:
//
//   nvcc -std=c++17 -O3 -arch=sm_90 -expt-relaxed-constexpr -cudart static -Xlinker -s
//       -I CUTLASS/include -I CUTLASS/examples/13_two_tensor_op_fusion
//       -o cutlass_peer bench/gpu/cutlass_peer.cu
//
// -arch is that of the GPU, sm_80 or newer; the kernels use mma.sync and cp.async whatever it is.
//
//   cutlass_peer N H W C K1 K2 FILTER [STRIDE]   (FILTER 1 or 3, padded by FILTER / 2)
//
// prints {"us": best, "instance": its tiles, "error": of a range, "all": {tiles: us or reason}}, or
// {"cannot": reason}. Each instance is checked, then timed as measure.py times the others. Exit
// code 1 and one line on stderr if CUDA fails.
#include <cuda_runtime.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cutlass/conv/conv2d_problem_size.h"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/thread/linear_combination_relu.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle.h"
#include "device/b2b_implicit_gemm_convolution.h"

namespace {

using cutlass::half_t;
using cutlass::arch::Sm75;
using cutlass::arch::Sm80;
using cutlass::gemm::GemmShape;

constexpr double kGraphUs = 2000, kRoundUs = 1e5;
constexpr int kMostRuns = 50, kRounds = 3;
constexpr float kAllowedError = 5e-3F;  // as a fraction of the output's range

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}
#define CHECK(call) check(call, #call)

struct Problem {
  int batch, height, width, channels, middle, outputs, filter, stride;

  __host__ __device__ int pad() const { return filter / 2; }
  __host__ __device__ int rows() const { return (height + 2 * pad() - filter) / stride + 1; }
  __host__ __device__ int columns() const { return (width + 2 * pad() - filter) / stride + 1; }
  std::size_t pixels() const { return std::size_t(batch) * rows() * columns(); }
};

template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t size) : size_(size) { CHECK(cudaMalloc(&data_, size * sizeof(T))); }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  T* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

/// Uniform in [-limit, limit), seeded.
template <class T>
__global__ void fill_kernel(T* to, std::size_t size, float limit, std::uint32_t seed) {
  const std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= size) return;
  std::uint64_t x = (i + (std::uint64_t(seed) << 40)) * 0x9E3779B97F4A7C15U;  // splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  const float unit = float(std::uint32_t(x >> 40)) / float(1 << 23) - 1;
  to[i] = T(unit * limit);
}

/// The reference: to[pixel][k] = relu(bias[k] + sum of from * weights[k][r][s][c]).
template <class Bias>
__global__ void convolution_kernel(Problem p, const half_t* from, const half_t* weights,
                                   const Bias* bias, half_t* to) {
  const std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int k = int(i % p.outputs), column = int(i / p.outputs % p.columns());
  const int row = int(i / p.outputs / p.columns() % p.rows());
  const int image = int(i / p.outputs / p.columns() / p.rows());
  if (image >= p.batch) return;
  float sum = 0;
  for (int r = 0; r < p.filter; ++r) {
    for (int s = 0; s < p.filter; ++s) {
      const int h = row * p.stride - p.pad() + r, w = column * p.stride - p.pad() + s;
      if (h < 0 || h >= p.height || w < 0 || w >= p.width) continue;
      const half_t* x = from + ((std::size_t(image) * p.height + h) * p.width + w) * p.channels;
      const half_t* y = weights + ((std::size_t(k) * p.filter + r) * p.filter + s) * p.channels;
      for (int c = 0; c < p.channels; ++c) sum += float(x[c]) * float(y[c]);
    }
  }
  sum += float(bias[k]);
  to[i] = half_t(sum > 0 ? sum : 0.0F);
}

/// The largest |got - want| and the largest |want| as bits, which are ordered as the numbers are:
/// NaN is above all.
__global__ void compare_kernel(const half_t* got, const half_t* want, std::size_t size,
                               std::uint32_t* largest) {
  std::uint32_t error = 0, value = 0;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += std::size_t(gridDim.x) * blockDim.x) {
    const float expected = float(want[i]);
    const std::uint32_t bits = __float_as_uint(fabsf(float(got[i]) - expected));
    error = bits > error ? bits : error;
    const std::uint32_t magnitude = __float_as_uint(fabsf(expected));
    value = magnitude > value ? magnitude : value;
  }
  atomicMax(&largest[0], error);
  atomicMax(&largest[1], value);
}

unsigned blocks_of(std::size_t size) { return unsigned((size + 255) / 256); }

template <class T>
void fill(const Buffer<T>& to, double limit, std::uint32_t seed) {
  fill_kernel<<<blocks_of(to.size()), 256>>>(to.data(), to.size(), float(limit), seed);
  CHECK(cudaGetLastError());
}

struct Tensors {
  Buffer<half_t> input, first, second, result, expected;
  Buffer<float> bias;     // of the first
  Buffer<half_t> source;  // what the second adds: its bias, for every pixel

  explicit Tensors(const Problem& p)
      : input(std::size_t(p.batch) * p.height * p.width * p.channels),
        first(std::size_t(p.middle) * p.filter * p.filter * p.channels),
        second(std::size_t(p.outputs) * p.middle),
        result(p.pixels() * p.outputs),
        expected(p.pixels() * p.outputs),
        bias(p.middle),
        source(p.outputs) {
    fill(input, 1, 1);
    fill(first, std::sqrt(6.0 / (p.filter * p.filter * p.channels)), 2);
    fill(second, std::sqrt(6.0 / p.middle), 3);
    fill(bias, 0.1, 4);
    fill(source, 0.1, 5);
    Buffer<half_t> between(p.pixels() * p.middle);
    Problem one = p, other = p;
    one.outputs = p.middle;
    other = {p.batch, p.rows(), p.columns(), p.middle, 0, p.outputs, 1, 1};
    convolution_kernel<<<blocks_of(between.size()), 256>>>(one, input.data(), first.data(),
                                                           bias.data(), between.data());
    CHECK(cudaGetLastError());
    convolution_kernel<<<blocks_of(expected.size()), 256>>>(other, between.data(), second.data(),
                                                            source.data(), expected.data());
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }

  /// As a fraction of the range, which for a relu begins at 0.
  float error() const {
    Buffer<std::uint32_t> largest(2);
    CHECK(cudaMemset(largest.data(), 0, 8));
    compare_kernel<<<1024, 256>>>(result.data(), expected.data(), result.size(), largest.data());
    CHECK(cudaGetLastError());
    float found[2];
    CHECK(cudaMemcpy(found, largest.data(), 8, cudaMemcpyDeviceToHost));
    return found[0] / std::max(found[1], 1e-3F);
  }
};

/// One of CUTLASS's kernels: tiles of rows x columns of the first and the second product, depth of
/// a step, the part of a warp. What the first makes stays in registers, or in shared memory.
struct Instance {
  std::string name;
  int middle, outputs;  // the most channels
  int shared_bytes;
  /// What enqueues a run; std::invalid_argument if CUTLASS refuses the problem.
  std::function<std::function<void(cudaStream_t)>(const Problem&, const Tensors&)> prepare;
};

template <class First, class Warp0, int kColumns1, class Warp1, int kStages, bool kShared,
          class Arch = Sm80>
Instance instance() {
  constexpr int kRows = First::kM, kDepth = First::kK;
  using Second = GemmShape<kRows, kColumns1, kDepth>;
  constexpr int kInstructionDepth = std::is_same_v<Arch, Sm75> ? 8 : 16;
  using Instruction = GemmShape<16, 8, kInstructionDepth>;
  using cutlass::epilogue::thread::LinearCombinationRelu;
  using cutlass::epilogue::thread::ScaleType;
  using Layout = cutlass::layout::TensorNHWC;
  using Kernel = typename cutlass::conv::kernel::DefaultB2bConv2dFprop<
      half_t, Layout, half_t, Layout, half_t, Layout, float, cutlass::arch::OpClassTensorOp, Arch,
      First, Second, Warp0, Warp1, Instruction,
      LinearCombinationRelu<half_t, 4, float, float, ScaleType::OnlyAlphaScaling>,
      LinearCombinationRelu<half_t, 8, float, float, ScaleType::NoBetaScaling>,
      cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<1>, kStages,
      cutlass::arch::OpMultiplyAdd, cutlass::conv::IteratorAlgorithm::kOptimized, kShared>::Kernel;
  using Device = cutlass::conv::device::B2bImplicitGemmConvolution<Kernel>;

  char name[128];
  std::snprintf(name, sizeof(name), "%s %dx%d %dx%d by %d, warps %dx%d %dx%d, %d stages, sm_%d",
                kShared ? "shared" : "registers", kRows, First::kN, kRows, kColumns1, kDepth,
                Warp0::kM, Warp0::kN, Warp1::kM, Warp1::kN, kStages, Arch::kMinComputeCapability);
  const auto prepare = [](const Problem& p, const Tensors& t) {
    cutlass::conv::Conv2dProblemSize first(
        {p.batch, p.height, p.width, p.channels}, {p.middle, p.filter, p.filter, p.channels},
        {p.pad(), p.pad(), p.pad(), p.pad()}, {p.stride, p.stride}, {1, 1},
        {p.batch, p.rows(), p.columns(), p.middle});
    cutlass::conv::Conv2dProblemSize second({p.batch, p.rows(), p.columns(), p.middle},
                                            {p.outputs, 1, 1, p.middle}, {0, 0, 0, 0}, {1, 1},
                                            {1, 1}, {p.batch, p.rows(), p.columns(), p.outputs});
    const auto packed = [](int h, int w, int c) { return Layout::packed({1, h, w, c}); };
    typename Device::Arguments arguments(
        first, second, {t.input.data(), packed(p.height, p.width, p.channels)},
        {t.first.data(), packed(p.filter, p.filter, p.channels)}, {}, {}, {t.bias.data(), 0},
        {t.second.data(), packed(1, 1, p.middle)},
        {t.source.data(), Layout(typename Layout::Stride(0))},
        {t.result.data(), packed(p.rows(), p.columns(), p.outputs)}, {1.0F, 0.0F}, {1.0F, 1.0F});
    const auto require = [](cutlass::Status status) {
      if (status != cutlass::Status::kSuccess)
        throw std::invalid_argument(cutlassGetStatusString(status));
    };
    require(Device::can_implement(arguments));
    Device device;
    require(device.initialize(arguments));
    return std::function<void(cudaStream_t)>([device](cudaStream_t stream) mutable {
      device.run(stream);
      CHECK(cudaGetLastError());
    });
  };
  return {name, First::kN, kColumns1, int(sizeof(typename Kernel::SharedStorage)), prepare};
}

template <int... kSizes>
using Shape = GemmShape<kSizes...>;

/// By the channels that they take in between and at the end.
std::vector<Instance> instances() {
  return {
      instance<Shape<128, 32, 32>, Shape<32, 32, 32>, 32, Shape<32, 32, 32>, 3, false>(),
      instance<Shape<128, 32, 32>, Shape<32, 32, 32>, 32, Shape<32, 32, 32>, 3, true>(),

      instance<Shape<32, 64, 32>, Shape<16, 64, 32>, 64, Shape<16, 64, 32>, 3, false>(),
      instance<Shape<64, 64, 32>, Shape<16, 64, 32>, 64, Shape<16, 64, 32>, 3, false>(),
      instance<Shape<64, 64, 32>, Shape<32, 64, 32>, 64, Shape<32, 64, 32>, 3, false>(),
      instance<Shape<128, 64, 32>, Shape<32, 64, 32>, 64, Shape<32, 64, 32>, 3, false>(),
      instance<Shape<128, 64, 32>, Shape<32, 64, 32>, 64, Shape<32, 64, 32>, 5, false>(),
      instance<Shape<128, 64, 64>, Shape<32, 64, 64>, 64, Shape<32, 64, 64>, 3, false>(),
      instance<Shape<64, 64, 32>, Shape<32, 32, 32>, 64, Shape<32, 32, 32>, 3, true>(),
      instance<Shape<128, 64, 32>, Shape<64, 32, 32>, 64, Shape<64, 32, 32>, 3, true>(),
      instance<Shape<128, 64, 32>, Shape<64, 32, 32>, 64, Shape<64, 32, 32>, 5, true>(),
      instance<Shape<128, 64, 64>, Shape<64, 32, 64>, 64, Shape<64, 32, 64>, 3, true>(),
      instance<Shape<64, 64, 32>, Shape<32, 64, 32>, 64, Shape<32, 64, 32>, 2, false, Sm75>(),
      instance<Shape<64, 64, 32>, Shape<32, 32, 32>, 64, Shape<32, 32, 32>, 2, true, Sm75>(),

      instance<Shape<64, 64, 32>, Shape<16, 64, 32>, 128, Shape<16, 128, 32>, 3, false>(),
      instance<Shape<64, 64, 32>, Shape<32, 64, 32>, 128, Shape<32, 128, 32>, 3, false>(),
      instance<Shape<64, 64, 32>, Shape<32, 32, 32>, 128, Shape<32, 64, 32>, 3, true>(),
      instance<Shape<128, 64, 32>, Shape<64, 32, 32>, 128, Shape<64, 64, 32>, 3, true>(),
      instance<Shape<128, 64, 64>, Shape<64, 32, 64>, 128, Shape<64, 64, 64>, 3, true>(),
      instance<Shape<64, 64, 32>, Shape<32, 32, 32>, 128, Shape<32, 64, 32>, 2, true, Sm75>(),

      instance<Shape<64, 64, 32>, Shape<16, 64, 32>, 256, Shape<16, 256, 32>, 3, false>(),
      instance<Shape<64, 64, 32>, Shape<32, 32, 32>, 256, Shape<64, 64, 32>, 3, true>(),
      instance<Shape<64, 64, 64>, Shape<32, 32, 64>, 256, Shape<64, 64, 64>, 3, true>(),
      instance<Shape<128, 64, 32>, Shape<32, 32, 32>, 256, Shape<64, 64, 32>, 3, true>(),
      instance<Shape<128, 64, 64>, Shape<32, 32, 64>, 256, Shape<64, 64, 64>, 3, true>(),
      instance<Shape<64, 64, 32>, Shape<32, 32, 32>, 256, Shape<64, 64, 32>, 2, true, Sm75>(),

      instance<Shape<64, 128, 32>, Shape<16, 128, 32>, 64, Shape<16, 64, 32>, 3, false>(),
      instance<Shape<64, 128, 32>, Shape<32, 64, 32>, 64, Shape<32, 32, 32>, 3, true>(),
      instance<Shape<128, 128, 32>, Shape<64, 64, 32>, 64, Shape<64, 32, 32>, 3, true>(),

      instance<Shape<64, 128, 32>, Shape<32, 32, 32>, 512, Shape<64, 64, 32>, 3, true>(),
      instance<Shape<64, 128, 64>, Shape<32, 32, 64>, 512, Shape<64, 64, 64>, 3, true>(),

      instance<Shape<64, 256, 32>, Shape<64, 64, 32>, 64, Shape<32, 32, 32>, 3, true>(),
      instance<Shape<128, 256, 32>, Shape<64, 64, 32>, 64, Shape<32, 32, 32>, 3, true>(),

      instance<Shape<64, 192, 32>, Shape<32, 96, 32>, 128, Shape<32, 64, 32>, 3, true>(),

      instance<Shape<64, 256, 32>, Shape<64, 64, 32>, 128, Shape<32, 64, 32>, 3, true>(),
      instance<Shape<128, 256, 32>, Shape<64, 64, 32>, 128, Shape<32, 64, 32>, 3, true>(),
  };
}

/// Those that take the channels with the least padding.
std::vector<Instance> fitting(const Problem& p) {
  std::vector<Instance> all = instances(), chosen;
  const auto size = [](const Instance& i) { return std::pair(i.middle, i.outputs); };
  std::pair least{std::numeric_limits<int>::max(), 0};
  const auto fits = [&](const Instance& i) {
    return p.middle <= i.middle && p.outputs <= i.outputs;
  };
  for (const Instance& i : all) {
    if (fits(i)) least = std::min(least, size(i));
  }
  for (Instance& i : all) {
    if (size(i) == least) chosen.push_back(std::move(i));
  }
  return chosen;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A CUDA graph of `runs` runs.
class Graph {
 public:
  Graph(cudaStream_t stream, const std::function<void(cudaStream_t)>& run, int runs)
      : stream_(stream), runs_(runs) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < runs; ++i) run(stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&graph_, graph, 0));
    CHECK(cudaGraphDestroy(graph));
  }
  Graph(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(graph_); }

  /// Median microseconds of a run: replays back to back, an event between any two.
  double us(int replays) const {
    constexpr int kWarmUps = 10;
    std::vector<cudaEvent_t> events(std::size_t(replays) + 1);
    for (cudaEvent_t& event : events) CHECK(cudaEventCreate(&event));
    for (int i = 0; i < kWarmUps; ++i) CHECK(cudaGraphLaunch(graph_, stream_));
    CHECK(cudaEventRecord(events[0], stream_));
    for (std::size_t i = 1; i < events.size(); ++i) {
      CHECK(cudaGraphLaunch(graph_, stream_));
      CHECK(cudaEventRecord(events[i], stream_));
    }
    CHECK(cudaStreamSynchronize(stream_));
    std::vector<double> times;
    for (std::size_t i = 1; i < events.size(); ++i) {
      float ms = 0;
      CHECK(cudaEventElapsedTime(&ms, events[i - 1], events[i]));
      times.push_back(ms * 1e3 / runs_);
    }
    for (cudaEvent_t event : events) CHECK(cudaEventDestroy(event));
    return median(times);
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
  int runs_;
};

struct Measured {
  std::string name, failed;
  float error = 0;
  std::vector<double> rounds;
  double us() const { return median(rounds); }
};

/// Right answers first; then rounds in turns.
std::vector<Measured> measure(const Problem& p, const std::vector<Instance>& chosen) {
  int most_shared = 0, device = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const Tensors tensors(p);
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<Measured> all(chosen.size());
  std::vector<std::unique_ptr<Graph>> graphs(chosen.size());
  std::vector<int> replays(chosen.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    all[i].name = chosen[i].name;
    if (chosen[i].shared_bytes > most_shared) {
      all[i].failed = "needs " + std::to_string(chosen[i].shared_bytes) + " bytes of shared memory";
      continue;
    }
    try {
      const auto run = chosen[i].prepare(p, tensors);
      CHECK(cudaMemset(tensors.result.data(), 0xFF, tensors.result.size() * sizeof(half_t)));
      CHECK(cudaDeviceSynchronize());
      run(stream);
      CHECK(cudaStreamSynchronize(stream));
      all[i].error = tensors.error();
      if (!(all[i].error <= kAllowedError)) {
        all[i].failed = "wrong";
        continue;
      }
      const double quick = Graph(stream, run, 1).us(10);
      const int runs = std::clamp(int(kGraphUs / quick), 1, kMostRuns);
      graphs[i] = std::make_unique<Graph>(stream, run, runs);
      replays[i] = std::clamp(int(kRoundUs / quick / runs), 50, 2000);
    } catch (const std::invalid_argument& refusal) {
      all[i].failed = refusal.what();
      cudaGetLastError();
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (graphs[i]) all[i].rounds.push_back(graphs[i]->us(replays[i]));
    }
  }
  return all;
}

void print(const std::vector<Measured>& all) {
  const Measured* best = nullptr;
  std::string list;
  for (const Measured& one : all) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.2f", one.rounds.empty() ? 0 : one.us());
    list += (list.empty() ? "\"" : ", \"") + one.name +
            "\": " + (one.failed.empty() ? number : "\"" + one.failed + "\"");
    if (one.failed.empty() && (best == nullptr || one.us() < best->us())) best = &one;
  }
  if (best == nullptr) {
    std::printf("{\"cannot\": \"no instance is right\", \"all\": {%s}}\n", list.c_str());
    return;
  }
  std::printf("{\"us\": %.3f, \"instance\": \"%s\", \"error\": %.2e, \"all\": {%s}}\n", best->us(),
              best->name.c_str(), best->error, list.c_str());
}

/// Why not, or nothing.
const char* refusal(const Problem& p) {
  if (p.channels % 8 != 0 || p.middle % 8 != 0 || p.outputs % 8 != 0)
    return "channels must be multiples of 8";
  if (p.filter != 1 && p.filter != 3) return "the first filter must be 1x1 or 3x3";
  if (fitting(p).empty()) return "too many channels for the instances";
  return nullptr;
}

bool parse(int count, char** words, Problem& p) {
  int* const fields[] = {&p.batch,  &p.height,  &p.width,  &p.channels,
                         &p.middle, &p.outputs, &p.filter, &p.stride};
  if (count != 8 && count != 9) return false;
  for (int i = 0; i + 1 < count; ++i) {
    const char* end = words[i + 1] + std::strlen(words[i + 1]);
    const auto [last, error] = std::from_chars(words[i + 1], end, *fields[i]);
    if (error != std::errc() || last != end || *fields[i] < 1) return false;
  }
  return true;
}

}  // namespace

int main(int count, char** words) {
  Problem problem{};
  problem.stride = 1;
  if (!parse(count, words, problem)) {
    std::fprintf(stderr, "usage: cutlass_peer N H W C K1 K2 FILTER [STRIDE]\n");
    return 2;
  }
  if (const char* reason = refusal(problem)) {
    std::printf("{\"cannot\": \"%s\"}\n", reason);
    return 0;
  }
  try {
    print(measure(problem, fitting(problem)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cutlass_peer: %s\n", error.what());
    return 1;
  }
  return 0;
}
