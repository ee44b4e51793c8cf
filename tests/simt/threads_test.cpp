// Threads, barriers, collectives and the mistakes that the emulation finds.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "simt/run.hpp"

namespace braze::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kOrders = 6;

std::vector<float> numbers(std::size_t count) {
  std::vector<float> result(count);
  std::iota(result.begin(), result.end(), 1.0f);
  return result;
}

TEST(Simt, EveryThreadOfEveryBlockRunsOnce) {
  BRAZE_NEEDS_EMULATOR();
  const std::string source = kernel_source(R"(
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread_in_block =
        (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread_in_block;
    atomicAdd(static_cast<int*>(p.out) + i, static_cast<int>(i) + 2);
  )");
  const auto out = run_kernels<int>(source, {{3, 2, 2}, {5, 3, 4}}, numbers(1), 720)[0];
  for (int i = 0; i < 720; ++i) ASSERT_EQ(out[static_cast<std::size_t>(i)], i + 1);  // -1 before
}

TEST(Simt, BarriersOrderSharedMemory) {
  BRAZE_NEEDS_EMULATOR();
  const std::string source = kernel_source(R"(
    BRAZE_DYNAMIC_SHARED(shared);
    float* const a = reinterpret_cast<float*>(shared);
    __shared__ float b[256];
    for (int round = 0; round < 3; ++round) {
      a[thread] = in[thread] + round;
      __syncthreads();
      b[255 - thread] = a[255 - thread] + a[thread];
      __syncthreads();
    }
    out[thread] = b[thread];
  )");
  for (const auto& out :
       run_kernels<float>(source, {{2}, {256}, 1024, kOrders}, numbers(256), 256)) {
    for (const float x : out) ASSERT_EQ(x, 261);  // 257 + 2 * 2
  }
}

TEST(Simt, AMissingBarrierGivesWrongAnswers) {
  BRAZE_NEEDS_EMULATOR();
  const std::string missing = kernel_source(R"(
    __shared__ float a[128];
    a[thread] = in[thread];
    out[thread] = a[127 - thread];
  )");
  std::size_t wrong = 0;
  for (const auto& out : run_kernels<float>(missing, {{1}, {128}, 0, kOrders}, numbers(128), 128)) {
    auto want = numbers(128);
    std::ranges::reverse(want);
    wrong += out != want;
  }
  EXPECT_EQ(wrong, kOrders);
}

// A buffer that is written again while slower warps still read it.
TEST(Simt, AMissingBarrierBeforeAWriteGivesWrongAnswers) {
  BRAZE_NEEDS_EMULATOR();
  const std::string missing = kernel_source(R"(
    __shared__ float a[128];
    float sum = 0;
    for (int round = 0; round < 4; ++round) {
      a[thread] = in[thread] * (round + 1);
      __syncthreads();
      sum += a[(thread + 64) % 128];
    }
    out[thread] = sum;
  )");
  std::size_t wrong = 0;
  for (const auto& out : run_kernels<float>(missing, {{1}, {128}, 0, kOrders}, numbers(128), 128)) {
    for (std::size_t i = 0; i < 128; ++i)
      if (out[i] != static_cast<float>((i + 64) % 128 + 1) * 10) {
        ++wrong;
        break;
      }
  }
  EXPECT_EQ(wrong, kOrders);
}

TEST(Simt, OrdersDiffer) {
  BRAZE_NEEDS_EMULATOR();
  const std::string source = kernel_source(R"(
    __shared__ unsigned count;
    if (thread == 0) count = 0;
    __syncthreads();
    out[atomicAdd(&count, 1u)] = thread;
  )");
  const auto runs = run_kernels<float>(source, {{1}, {64}, 0, 20}, numbers(1), 64);
  EXPECT_GE(std::set<std::vector<float>>(runs.begin(), runs.end()).size(), 4u);
}

TEST(Simt, NamedBarriersJoinSomeWarps) {
  BRAZE_NEEDS_EMULATOR();
  // Warps 0 and 1 fill, warps 2 and 3 read; two buffers.
  const std::string source = kernel_source(R"(
    __shared__ float a[2][64];
    float sum = 0;
    for (int round = 0; round < 6; ++round) {
      const int buffer = round % 2;
      if (thread < 64) {
        if (round >= 2) bar_sync(3 + buffer, 128);
        a[buffer][thread] = in[thread] + round;
        bar_arrive(1 + buffer, 128);
      } else {
        bar_sync(1 + buffer, 128);
        sum += a[buffer][127 - thread];
        if (round < 4) bar_arrive(3 + buffer, 128);
      }
    }
    if (thread >= 64) out[127 - thread] = sum;
  )");
  for (const auto& out : run_kernels<float>(source, {{1}, {128}, 0, kOrders}, numbers(64), 64)) {
    for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], 6 * static_cast<float>(i + 1) + 15);
  }
}

TEST(Simt, ShufflesAndVotes) {
  BRAZE_NEEDS_EMULATOR();
  const std::string source = kernel_source(R"(
    unsigned long long* const o = static_cast<unsigned long long*>(p.out) + 8 * thread;
    const unsigned full = 0xffffffffu;
    o[0] = __shfl_sync(full, thread * 3, 5);
    o[1] = __shfl_xor_sync(full, thread, 3);
    o[2] = __shfl_up_sync(full, thread, 2);
    o[3] = __shfl_down_sync(full, thread, 2, 16);
    o[4] = __shfl_xor_sync(full, 1ull << thread, 16);
    o[5] = __ballot_sync(full, thread % 3 == 0);
    o[6] = __any_sync(full, thread == 40) * 2 + __all_sync(full, thread >= 32);
    float sum = 1.0f / 4;
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(full, sum, i);
    o[7] = static_cast<unsigned long long>(sum);
  )");
  const auto out = run_kernels<std::uint64_t>(source, {{1}, {64}}, numbers(1), 512)[0];
  for (std::uint64_t t = 0; t < 64; ++t) {
    const std::uint64_t lane = t % 32, warp = t - lane;
    const std::uint64_t* o = &out[8 * t];
    EXPECT_EQ(o[0], (warp + 5) * 3);
    EXPECT_EQ(o[1], t ^ 3);
    EXPECT_EQ(o[2], lane < 2 ? t : t - 2);
    EXPECT_EQ(o[3], lane % 16 < 14 ? t + 2 : t);
    EXPECT_EQ(o[4], 1ull << (t ^ 16));
    EXPECT_EQ(o[5], warp == 0 ? 0x49249249u : 0x92492492u);
    EXPECT_EQ(o[6], warp == 0 ? 0u : 3u);
    EXPECT_EQ(o[7], 8u);
  }
}

TEST(Simt, HalvesOfAWarpMeetApart) {
  BRAZE_NEEDS_EMULATOR();
  const std::string source = kernel_source(R"(
    const unsigned mask = thread < 16 ? 0xffffu : 0xffff0000u;
    int sum = thread;
    if (thread < 16) sum += 100;
    for (int i = 8; i > 0; i /= 2) sum += __shfl_xor_sync(mask, sum, i);
    out[thread] = sum;
  )");
  const auto out = run_kernels<float>(source, {{1}, {32}}, numbers(1), 32)[0];
  for (std::size_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t < 16 ? 120 + 1600 : 376);
}

TEST(Simt, BarriersThatReduce) {
  BRAZE_NEEDS_EMULATOR();
  const std::string source = kernel_source(R"(
    out[4 * thread] = __syncthreads_count(thread % 2);
    out[4 * thread + 1] = __syncthreads_and(thread < 96);
    out[4 * thread + 2] = __syncthreads_or(thread == 95);
    out[4 * thread + 3] = __syncthreads_or(thread == 96);
  )");
  const auto out = run_kernels<float>(source, {{1}, {96}}, numbers(1), 384)[0];
  for (std::size_t t = 0; t < 96; ++t) {
    EXPECT_EQ(out[4 * t], 48);
    EXPECT_EQ(out[4 * t + 1], 1);
    EXPECT_EQ(out[4 * t + 2], 1);
    EXPECT_EQ(out[4 * t + 3], 0);
  }
}

TEST(Simt, Atomics) {
  BRAZE_NEEDS_EMULATOR();
  const std::string source = kernel_source(R"(
    int* const o = static_cast<int*>(p.out);
    if (thread == 0) {
      for (int i = 0; i < 6; ++i) o[i] = 0;
      o[3] = 1000;
    }
    __syncthreads();
    atomicAdd(o, thread);
    atomicAdd(reinterpret_cast<float*>(o) + 1, 0.5f);
    atomicMax(o + 2, thread * 7 % 100);
    atomicMin(o + 3, thread * 7 % 100 + 3);
    for (int old = o[4];;) {
      const int seen = atomicCAS(o + 4, old, old + 3);
      if (seen == old) break;
      old = seen;
    }
    while (atomicCAS(o + 5, thread, thread + 1) != thread) {}  // one after another
  )");
  for (const auto& out : run_kernels<int>(source, {{1}, {100}, 0, 3}, numbers(1), 6)) {
    float sum = 0;
    std::memcpy(&sum, &out[1], 4);
    EXPECT_EQ(out[0], 4950);
    EXPECT_EQ(sum, 50);
    EXPECT_EQ(out[2], 99);
    EXPECT_EQ(out[3], 3);
    EXPECT_EQ(out[4], 300);
    EXPECT_EQ(out[5], 100);
  }
}

TEST(SimtFinds, BarriersThatNotAllReach) {
  BRAZE_NEEDS_EMULATOR();
  EXPECT_THAT(
      error_of("if (thread != 7) __syncthreads();", {{4}, {64}}),
      AllOf(HasSubstr("kernel test_kernel, block (0, 0, 0), thread (0, 0, 0)"),
            HasSubstr("barrier 0 (kernel.cu:"), HasSubstr("thread (7, 0, 0) is at its end")));
  EXPECT_THAT(
      error_of("if (thread < 32) {\n__syncthreads();\n} else {\n__syncthreads();\n}", {{1}, {64}}),
      HasSubstr("waits at __syncthreads() of kernel.cu:"));
  EXPECT_THAT(error_of("if (thread < 32) bar_sync(1, 64); else bar_sync(2, 64);", {{1}, {64}}),
              HasSubstr("waits for ever at barrier 1"));
  EXPECT_THAT(error_of("bar_sync(1, thread < 32 ? 64 : 96);", {{1}, {96}}),
              HasSubstr("where others said"));
}

TEST(SimtFinds, CollectivesWhoseLanesDisagree) {
  BRAZE_NEEDS_EMULATOR();
  EXPECT_THAT(error_of("if (thread != 9) out[0] = __shfl_sync(0xffffffffu, 1.0f, 0);", {{1}, {32}}),
              AllOf(HasSubstr("__shfl_sync with mask 0xffffffff"), HasSubstr("thread (9, 0, 0)")));
  EXPECT_THAT(
      error_of("if (thread < 16) __syncwarp(); else __ballot_sync(0xffffffffu, 1);", {{1}, {32}}),
      HasSubstr("of its warp at"));
  EXPECT_THAT(error_of("__syncwarp(0xffffu);", {{1}, {32}}), HasSubstr("in which it is not"));
  EXPECT_THAT(error_of("u32 a[4] = {}, b[2] = {}; float d[4] = {}; mma_m16n8k16<half>(d, a, b);",
                       {{1}, {16}}),
              HasSubstr("mma.m16n8k16.f16: not all 32 lanes"));
}

TEST(SimtFinds, AccessesBesideMemory) {
  BRAZE_NEEDS_EMULATOR();
  const std::string shared = "BRAZE_DYNAMIC_SHARED(s);\n";
  EXPECT_EQ(error_of(shared + "s[thread] = 0;", {{1}, {100}, 100}), "");
  EXPECT_THAT(error_of(shared + "s[thread + 1] = 0;", {{1}, {100}, 100}),
              HasSubstr("wrote to byte 100 of its 100 bytes of dynamic shared memory"));
  EXPECT_THAT(error_of(shared + "s[thread - 1] = 0;", {{1}, {100}, 100}),
              HasSubstr("wrote 1 bytes before its dynamic shared memory"));
  EXPECT_THAT(error_of(shared + "out[0] = s[5000];", {{1}, {1}, 100}),
              HasSubstr("which is not its memory at kernel.cu:"));
  EXPECT_THAT(error_of("out[1] = 0;", {{1}, {1}}), HasSubstr("behind the 4 bytes of output 0"));
  EXPECT_THAT(error_of("if (thread == 3) out[-1] = 0;", {{1}, {32}}),
              HasSubstr("before the memory of output 0"));
  EXPECT_THAT(
      error_of("if (thread == 3) out[64] = 0;", {{1}, {32}}),
      AllOf(HasSubstr("thread (3, 0, 0)"), HasSubstr("which is not its memory at kernel.cu")));
  EXPECT_THAT(error_of("if (thread == 3) out[0] = *(float*)nullptr;", {{1}, {32}}),
              HasSubstr("null"));
}

TEST(SimtFinds, OtherFaults) {
  BRAZE_NEEDS_EMULATOR();
  EXPECT_THAT(error_of("out[0] = reinterpret_cast<const uint4*>(in + 1)->x;", {{1}, {1}}),
              HasSubstr("misaligned access"));
  EXPECT_THAT(error_of("out[0] = deep(static_cast<int>(in[0]));", {{1}, {1}}, 4,
                       "__noinline__ int deep(int n) { volatile char a[4096]; a[n] = 1; "
                       "return deep(n + 1) + a[n]; }"),
              HasSubstr("its stack of 64 KB has overflowed"));
  EXPECT_THAT(error_of("out[0] = 7 / static_cast<int>(in[0]);", {{1}, {1}}),
              HasSubstr("integer division by zero"));
  EXPECT_THAT(error_of("__trap();", {{1}, {1}}), HasSubstr("__trap()"));
  EXPECT_THAT(error_of("while (atomicAdd(reinterpret_cast<int*>(out), 0) != 5) {}", {{1}, {2}}),
              HasSubstr("waits for ever at something that it polls"));
  EXPECT_THAT(error_of("", {{1}, {2000}}), HasSubstr("a block of 2000 threads"));
  EXPECT_THAT(error_of("", {{1}, {1}, 300000}), HasSubstr("300000 bytes of dynamic shared memory"));
}

TEST(Simt, SharedMemoryIsNanBeforeItIsWritten) {
  BRAZE_NEEDS_EMULATOR();
  const std::string source = kernel_source(R"(
    BRAZE_DYNAMIC_SHARED(s);
    __shared__ float a[32];
    float* const o = out + 64 * blockIdx.x;
    o[thread] = a[thread];
    o[32 + thread] = reinterpret_cast<float*>(s)[thread];
    a[thread] = reinterpret_cast<float*>(s)[thread] = 1;
  )");
  const auto out = run_kernels<float>(source, {{3}, {32}, 128}, numbers(1), 192)[0];
  for (const float x : out) EXPECT_NE(x, x);
}

}  // namespace
}  // namespace braze::test
