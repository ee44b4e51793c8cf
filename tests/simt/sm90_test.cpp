// Barriers in shared memory, TMA, clusters and products of warpgroups.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <random>

#include "simt/run.hpp"

namespace braze::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<float> integers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> result(count);
  for (float& x : result) x = static_cast<float>(static_cast<int>(random() % 15) - 7);
  return result;
}

struct alignas(64) Block {
  std::byte maps[2][128];
  const void* in = nullptr;
  void* out = nullptr;
};

/// Threads see `shared`, `in`, `out`, `thread`, and `p.maps`.
std::string source_of(const std::string& body, const std::string& before = "") {
  return R"(#include "braze/ptx_sm90.cuh"
#include "braze/types.cuh"
using namespace braze::device;
struct alignas(64) Parameters {
  unsigned char maps[2][128];
  const float* in;
  float* out;
};
)" + before +
         R"(
extern "C" __global__ void test_kernel(const __grid_constant__ Parameters p) {
  BRAZE_DYNAMIC_SHARED(shared);
  [[maybe_unused]] const float* const in = p.in;
  [[maybe_unused]] float* const out = p.out;
  [[maybe_unused]] const int thread = threadIdx.x;
)" + body +
         "}\n";
}

cuda::Kernel kernel_of(const std::string& body, unsigned threads, unsigned shared_bytes,
                       std::vector<cuda::TensorMap> maps, const std::string& before = "") {
  Block block;
  cuda::Kernel kernel;
  kernel.source = source_of(body, before);
  kernel.entry = "test_kernel";
  kernel.block = {threads};
  kernel.shared_bytes = shared_bytes;
  cuda::Parameters parameters(block);
  parameters.point(block.in, {cuda::Address::Of::kInput, 0, 0});
  parameters.point(block.out, {cuda::Address::Of::kOutput, 0, 0});
  for (std::size_t i = 0; i < maps.size(); ++i) {
    maps[i].at = parameters.offset_of(block.maps[i]);
    if (maps[i].address.of == cuda::Address::Of::kNull)
      maps[i].address.of = cuda::Address::Of::kInput;
  }
  parameters.move_to(kernel);
  kernel.maps = std::move(maps);
  return kernel;
}

std::vector<std::vector<float>> run_orders(const cuda::Kernel& kernel, const std::vector<float>& in,
                                           std::size_t count, int orders = 1) {
  const std::vector<std::vector<std::byte>> inputs{
      {reinterpret_cast<const std::byte*>(in.data()),
       reinterpret_cast<const std::byte*>(in.data() + in.size())}};
  const std::vector<std::size_t> outputs{4 * count};
  std::vector<std::vector<float>> results;
  for (const auto& run : run_kernel(kernel, inputs, outputs, 90, orders)) {
    results.emplace_back(count);
    std::memcpy(results.back().data(), run[0].data(), 4 * count);
  }
  return results;
}

std::string error_of_kernel(const cuda::Kernel& kernel) {
  try {
    run_orders(kernel, std::vector<float>(8192), 4);
  } catch (const Exception& exception) {
    return exception.error().message;
  }
  return {};
}

/// float32, tiled.
cuda::TensorMap tiled(std::vector<std::uint64_t> extents, std::vector<std::uint64_t> strides,
                      std::vector<std::uint32_t> box, std::uint32_t swizzle) {
  cuda::TensorMap map;
  map.dtype = DType::kFloat32;
  map.extents = std::move(extents);
  map.strides = std::move(strides);
  map.steps.assign(box.size(), 1);
  map.box = std::move(box);
  map.swizzle_bytes = swizzle;
  return map;
}

// A producer warp and two consumer warps, a ring of two stages.
const char* const kPipeline = R"(
    Barrier* const full = reinterpret_cast<Barrier*>(shared + 2048);
    Barrier* const empty = full + 2;
    if (thread == 0) {
      for (int i = 0; i < 2; ++i) {
        barrier_init(full + i, 1);
        barrier_init(empty + i, 2);
      }
      barrier_init_fence();
    }
    __syncthreads();
    if (thread / 32 == 2) {
      if (thread % 32 == 0) {
        for (int i = 0; i < 8; ++i) {
          WAIT_EMPTY barrier_wait(empty + i % 2, (i / 2 + 1) % 2);
          barrier_arrive_expect(full + i % 2, 1024);
          tma_load_2d(shared + i % 2 * 1024, &p.maps[0], full + i % 2, 0, 8 * i);
        }
      }
    } else {
      float sum[4] = {};
      for (int i = 0; i < 8; ++i) {
        WAIT_FULL barrier_wait(full + i % 2, i / 2 % 2);
        for (int j = 0; j < 4; ++j)
          sum[j] += reinterpret_cast<const float*>(shared + i % 2 * 1024)[thread + 64 * j];
        __syncwarp();
        if (thread % 32 == 0) barrier_arrive(empty + i % 2);
      }
      for (int j = 0; j < 4; ++j) out[thread + 64 * j] = sum[j];
    }
)";

std::string with_words(std::string text, const std::string& empty, const std::string& full) {
  text.replace(text.find("WAIT_EMPTY"), 10, empty);
  text.replace(text.find("WAIT_FULL"), 9, full);
  return text;
}

std::vector<float> pipeline_sums(const std::vector<float>& in) {
  std::vector<float> want(256);
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t j = 0; j < 256; ++j) want[j] += in[256 * i + j];
  return want;
}

TEST(SimtSm90, LoadsInARing) {
  BRAZE_NEEDS_EMULATOR();
  const auto in = integers(2048, 1);
  const auto kernel =
      kernel_of(with_words(kPipeline, "", ""), 96, 2080, {tiled({32, 64}, {128}, {32, 8}, 0)});
  for (const auto& out : run_orders(kernel, in, 256, 8)) EXPECT_EQ(out, pipeline_sums(in));
}

TEST(SimtSm90, MissingWaitsGiveWrongAnswers) {
  BRAZE_NEEDS_EMULATOR();
  const auto in = integers(2048, 1);
  const auto map = tiled({32, 64}, {128}, {32, 8}, 0);
  // Wrong sums, or arrivals out of step.
  const auto is_wrong = [&](const std::string& empty, const std::string& full) {
    const auto kernel = kernel_of(with_words(kPipeline, empty, full), 96, 2080, {map});
    try {
      for (const auto& out : run_orders(kernel, in, 256, 4)) {
        if (out != pipeline_sums(in)) return true;
      }
    } catch (const Exception&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(is_wrong("", "if (i != 5)"));
  EXPECT_TRUE(is_wrong("if (i != 4)", ""));
  EXPECT_FALSE(is_wrong("", ""));
}

TEST(SimtSm90, BoxesAreSwizzledAndZeroOutside) {
  BRAZE_NEEDS_EMULATOR();
  // A tensor of 3 x 5 x 40 in rows of 48; boxes of 2 x 4 x (swizzle bytes).
  std::vector<float> in(3 * 5 * 48);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i + 1);
  for (const unsigned swizzle : {0u, 32u, 64u, 128u}) {
    const unsigned width = swizzle == 0 ? 12 : swizzle / 4;
    const auto map = tiled({40, 5, 3}, {192, 960}, {width, 4, 2}, swizzle);
    const auto kernel = kernel_of(R"(
      Barrier* const full = reinterpret_cast<Barrier*>(shared + 4096);
      if (thread == 0) {
        barrier_init(full, 1);
        barrier_arrive_expect(full, )" +
                                      std::to_string(8 * 4 * width) +
                                      R"();
        tma_load_3d(shared + 1024, &p.maps[0], full, 34, -1, 2);
      }
      __syncthreads();
      barrier_wait(full, 0);
      for (int i = thread; i < 1024; i += 32) out[i] = reinterpret_cast<const float*>(shared)[i];
    )",
                                  32, 4112, {map});
    const auto out = run_orders(kernel, in, 1024)[0];
    for (unsigned row = 0; row < 8; ++row)
      for (unsigned i = 0; i < width; ++i) {
        unsigned at = 1024 + (row * width + i) * 4;
        if (swizzle != 0) at ^= (at >> 7 & (swizzle / 16 - 1)) << 4;
        const unsigned x = 34 + i, y = row % 4 - 1, z = 2 + row / 4;
        const float want = x < 40 && y < 5 && z < 3 ? in[(z * 5 + y) * 48 + x] : 0;
        ASSERT_EQ(out[at / 4], want) << swizzle << " " << row << " " << i;
      }
  }
}

/// A box of 2 x 3 pixels of 32 floats, written by the threads and stored at (x, y) of 5 x 4 pixels;
/// then `after`.
cuda::Kernel store_of(const std::string& place, const std::string& after) {
  auto map = tiled({32, 5, 4, 1}, {128, 640, 2560}, {32, 3, 2, 1}, 128);
  map.address.of = cuda::Address::Of::kOutput;
  return kernel_of(R"(
      float* const box = reinterpret_cast<float*>(shared + 1024);
      for (int i = 0; i < 6; ++i)
        box[(i * 128 + ((thread / 4 ^ i % 8) * 16)) / 4 + thread % 4] = 32 * i + thread;
      async_fence();
      __syncthreads();
      if (thread == 0) {
        tma_store_4d(&p.maps[0], shared + 1024, 0, )" +
                       place + R"(, 0);
        bulk_store_commit();
      }
      )" + after,
                   32, 2048, {map});
}

TEST(SimtSm90, StoresLeaveOutWhatIsOutside) {
  BRAZE_NEEDS_EMULATOR();
  for (const auto& [x, y] : {std::pair{1, 1}, {3, 3}, {-2, -1}}) {
    const auto kernel = store_of(std::to_string(x) + ", " + std::to_string(y),
                                 "if (thread == 0) bulk_store_wait_read<0>();");
    const auto out = run_orders(kernel, {0}, 5 * 4 * 32)[0];
    for (int pixel = 0; pixel < 20; ++pixel) {
      const int column = pixel % 5 - x, row = pixel / 5 - y;
      const bool stored = column >= 0 && column < 3 && row >= 0 && row < 2;
      for (int c = 0; c < 32; ++c) {
        const float got = out[static_cast<std::size_t>(pixel * 32 + c)];
        if (stored)
          ASSERT_EQ(got, static_cast<float>(32 * (row * 3 + column) + c)) << pixel << " " << c;
        else
          ASSERT_TRUE(std::isnan(got)) << pixel;
      }
    }
  }
}

TEST(SimtFinds, StoresThatAreNotWaitedFor) {
  BRAZE_NEEDS_EMULATOR();
  EXPECT_THAT(error_of_kernel(store_of("0, 0", "")),
              HasSubstr("ends before its stores by TMA have read shared memory"));
  // The box is written again before it has been read.
  const auto late = store_of("0, 0", R"(
      __syncthreads();
      for (int i = 0; i < 6; ++i) box[32 * i + thread] = -1;
      if (thread == 0) bulk_store_wait_read<0>();)");
  EXPECT_EQ(run_orders(late, {0}, 640)[0][0], -1);
}

TEST(SimtSm90, Im2colWalksOverPixels) {
  BRAZE_NEEDS_EMULATOR();
  // 3 images of 6 x 7 pixels of 4 channels; a 3x3 filter, stride 2, padding 1 before and 0 behind:
  // the box of pixels has corners -1 and -2.
  std::vector<float> in(3 * 6 * 7 * 4);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i + 1);
  auto map = tiled({4, 7, 6, 3}, {16, 112, 672}, {}, 0);
  map.kind = cuda::TensorMap::Kind::kIm2col;
  map.steps = {1, 2, 2, 1};
  map.lower = {-1, -1};
  map.upper = {-2, -2};
  map.channels = 4;
  map.pixels = 16;
  const auto kernel = kernel_of(R"(
    Barrier* const full = reinterpret_cast<Barrier*>(shared + 2560);
    if (thread == 0) {
      barrier_init(full, 1);
      barrier_arrive_expect(full, 9 * 256);
      for (int tap = 0; tap < 9; ++tap)
        tma_load_im2col(shared + 256 * tap, &p.maps[0], full, 0, 3, 1, 1, tap % 3, tap / 3);
    }
    __syncthreads();
    barrier_wait(full, 0);
    for (int i = thread; i < 9 * 64; i += 32) out[i] = reinterpret_cast<const float*>(shared)[i];
  )",
                                32, 2568, {map});
  const auto out = run_orders(kernel, in, 576)[0];
  for (int tap = 0; tap < 9; ++tap) {
    // The result is 3 x 3; its pixel 5 (row 1, column 2) of image 1 comes first.
    for (int pixel = 0; pixel < 16; ++pixel) {
      const int index = 9 + 5 + pixel, n = index / 9, oy = index % 9 / 3, ox = index % 3;
      const int y = 2 * oy - 1 + tap / 3, x = 2 * ox - 1 + tap % 3;
      for (int c = 0; c < 4; ++c) {
        const bool inside = n < 3 && y >= 0 && y < 6 && x >= 0 && x < 7;
        const float want = inside ? static_cast<float>(((n * 6 + y) * 7 + x) * 4 + c + 1) : 0;
        ASSERT_EQ(out[static_cast<std::size_t>(tap * 64 + pixel * 4 + c)], want)
            << tap << " " << pixel;
      }
    }
  }
}

/// d[64][N] = a[64][K] b[N][K]^T by one warpgroup; K is two steps. Operands are stored swizzled by
/// the threads.
std::string wgmma_body(const std::string& type, int columns, int row_bytes,
                       const std::string& wait = "wgmma_wait<0>();",
                       const std::string& fence = "wgmma_fence();") {
  return fmt::format(R"(
    using T = {};
    constexpr int N = {}, kRowBytes = {}, K = kRowBytes / sizeof(T);
    unsigned char *a = shared, *b = shared + 64 * kRowBytes;
    const auto store = [&](unsigned char* to, const float* from, int rows) {{
      for (int e = thread; e < rows * K; e += 128) {{
        u32 at = e * sizeof(T);
        at ^= (at >> 7 & (kRowBytes / 16 - 1)) << 4;
        *reinterpret_cast<T*>(to + at) = from_float<T>(from[e]);
      }}
    }};
    store(a, in, 64);
    store(b, in + 64 * K, N);
    __syncthreads();
    const u64 da = matrix_descriptor<kRowBytes>(shared_address(a));
    const u64 db = matrix_descriptor<kRowBytes>(shared_address(b));
    float d[N / 2];
    for (int i = 0; i < N / 2; ++i) d[i] = 1;
    {}
    for (int k = 0; k < kRowBytes / 32; ++k) wgmma<T>(d, da + 2 * k, db + 2 * k, true);
    wgmma_commit();
    {}
    wgmma_registers(d);
    const int warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
    for (int j = 0; j < N / 8; ++j)
      for (int h = 0; h < 2; ++h)
        for (int e = 0; e < 2; ++e)
          out[(16 * warp + g + 8 * h) * N + 8 * j + 2 * t + e] = d[4 * j + 2 * h + e];
  )",
                     type, columns, row_bytes, fence, wait);
}

std::vector<float> wgmma_product(const std::vector<float>& in, std::size_t n, std::size_t k) {
  std::vector<float> want(64 * n, 1.0f);
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l) want[i * n + j] += in[i * k + l] * in[(64 + j) * k + l];
  return want;
}

TEST(SimtSm90, ProductsOfWarpgroups) {
  BRAZE_NEEDS_EMULATOR();
  struct Case {
    std::string type;
    int columns, row_bytes;
  };
  for (const auto& [type, columns, row_bytes] : std::vector<Case>{{"half", 64, 128},
                                                                  {"bfloat16", 96, 64},
                                                                  {"tf32", 32, 128},
                                                                  {"half", 256, 32},
                                                                  {"tf32", 128, 64}}) {
    const std::size_t k = static_cast<std::size_t>(row_bytes) / (type == "tf32" ? 4 : 2);
    const auto n = static_cast<std::size_t>(columns);
    const auto in = integers((64 + n) * k, 3);
    const auto kernel = kernel_of(wgmma_body(type, columns, row_bytes), 128,
                                  static_cast<unsigned>((64 + columns) * row_bytes), {});
    for (const auto& out : run_orders(kernel, in, 64 * n, 2))
      EXPECT_EQ(out, wgmma_product(in, n, k)) << type << columns;
  }
}

TEST(SimtFinds, MisusedWarpgroups) {
  BRAZE_NEEDS_EMULATOR();
  const auto in = integers(128 * 64, 3);
  const auto hasty = kernel_of(wgmma_body("half", 64, 128, ""), 128, 128 * 128, {});
  const auto out = run_orders(hasty, in, 64 * 64)[0];
  for (const float x : out) ASSERT_TRUE(std::isnan(x));
  EXPECT_THAT(error_of_kernel(kernel_of(wgmma_body("half", 64, 128, "wgmma_wait<0>();", ""), 128,
                                        128 * 128, {})),
              HasSubstr("no wgmma_fence()"));
  EXPECT_THAT(error_of_kernel(kernel_of("float d[16]; wgmma_fence();\n"
                                        "wgmma<half>(d, u64(thread) | u64{1} << 62, u64{1} << 62, "
                                        "false);",
                                        128, 0, {})),
              HasSubstr("are not those of the other threads"));
  EXPECT_THAT(error_of_kernel(kernel_of("if (thread < 96) wgmma_commit();", 128, 0, {})),
              AllOf(HasSubstr("wgmma_commit for the other threads of its warpgroup"),
                    HasSubstr("thread (96, 0, 0) is at its end")));
}

TEST(SimtSm90, ClustersShareAndExchange) {
  BRAZE_NEEDS_EMULATOR();
  // Each of 4 blocks loads a quarter of 32 rows for all, then sends its sums to block 0.
  const std::string body = R"(
    Barrier* const full = reinterpret_cast<Barrier*>(shared + 4096 + 4 * 512);
    Barrier* const sent = full + 1;
    float* const sums = reinterpret_cast<float*>(shared + 4096);  // [block][32 lanes][4]
    const u32 rank = cluster_rank();
    if (thread == 0) {
      barrier_init(full, 1);
      barrier_init(sent, 1);
      barrier_init_fence();
      barrier_arrive_expect(full, 4096);
      barrier_arrive_expect(sent, 4 * 512);
    }
    __syncthreads();
    cluster_arrive();
    cluster_wait();
    if (thread == 0)
      tma_load_2d_multicast(shared + 1024 * rank, &p.maps[0], full, 0, 8 * rank, 15);
    barrier_wait(full, 0);
    float v[4] = {};
    for (int row = 0; row < 32; ++row)
      v[row % 4] += reinterpret_cast<const float*>(shared)[32 * row + thread] * (rank + 1);
    cluster_store_async(cluster_address(sums + (32 * rank + thread) * 4, 0),
                        cluster_address(sent, 0), v[0], v[1], v[2], v[3]);
    if (rank == 0) {
      barrier_wait_cluster(sent, 0);
      for (int i = 0; i < 4; ++i) {
        float sum = 0;
        for (int block = 0; block < 4; ++block) sum += sums[(32 * block + thread) * 4 + i];
        out[128 * (blockIdx.x / 4) + 4 * thread + i] = sum;
      }
    }
    cluster_arrive();
    cluster_wait();
  )";
  auto kernel = kernel_of(body, 32, 4096 + 2048 + 16, {tiled({32, 32}, {128}, {32, 8}, 0)});
  kernel.grid = {8};
  kernel.cluster = 4;
  const auto in = integers(1024, 5);
  for (const auto& out : run_orders(kernel, in, 256, 8)) {
    for (std::size_t lane = 0; lane < 64; ++lane)
      for (std::size_t i = 0; i < 4; ++i) {
        float want = 0;
        for (std::size_t row = i; row < 32; row += 4) want += 10 * in[32 * row + lane % 32];
        ASSERT_EQ(out[4 * lane + i], want);
      }
  }
  kernel.grid = {6};
  EXPECT_THAT(error_of_kernel(kernel), HasSubstr("clusters of 4 blocks in a grid of 6"));
}

TEST(SimtFinds, MisusedBarriersInMemory) {
  BRAZE_NEEDS_EMULATOR();
  const std::string begin = "Barrier* const b = reinterpret_cast<Barrier*>(shared);\n";
  EXPECT_THAT(error_of_kernel(kernel_of(begin + "barrier_arrive(b);", 1, 64, {})),
              HasSubstr("before it is initialised"));
  EXPECT_THAT(
      error_of_kernel(kernel_of(begin + "barrier_init(b, 2); barrier_arrive(b);\n"
                                        "barrier_wait(b, 0);",
                                1, 64, {})),
      HasSubstr("waits for ever at the mbarrier at byte 0 of shared memory, for the end of a "
                "phase 0 (it is in phase 0, 1 arrivals and 0 bytes are missing)"));
  EXPECT_EQ(error_of_kernel(kernel_of(begin + "barrier_init(b, 1); barrier_wait(b, 1);\n"
                                              "barrier_arrive(b); barrier_wait(b, 0);",
                                      1, 64, {})),
            "");
  EXPECT_THAT(
      error_of_kernel(kernel_of(begin + "barrier_init(b, 1); barrier_arrive_expect(b, 512);\n"
                                        "tma_load_2d(shared + 128, &p.maps[0], b, 0, 0);",
                                1, 2048, {tiled({32, 32}, {128}, {32, 4}, 0)})),
      HasSubstr("ended before a copy to it had arrived"));
  EXPECT_THAT(error_of_kernel(kernel_of(begin + "barrier_init(b, 1);\n"
                                                "tma_load_2d(shared + 64, &p.maps[0], b, 0, 0);",
                                        1, 2048, {tiled({32, 32}, {128}, {32, 4}, 0)})),
              HasSubstr("not aligned to 128 bytes"));
  EXPECT_THAT(error_of_kernel(kernel_of("cluster_wait();", 1, 0, {})),
              HasSubstr("without cluster_arrive()"));
}

}  // namespace
}  // namespace braze::test
