// Matrix products, the loads and stores of their fragments, asynchronous copies, number formats.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "simt/run.hpp"
#include "support/simt/formats.hpp"

namespace braze::test {
namespace {

using testing::HasSubstr;

/// Small integers: every sum is exact in every format.
std::vector<float> integers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> result(count);
  for (float& x : result) x = static_cast<float>(static_cast<int>(random() % 17) - 8);
  return result;
}

/// a[m][k] b[k][n] + c[m][n], the three one after another in `in`.
std::vector<float> product(const std::vector<float>& in, std::size_t m, std::size_t n,
                           std::size_t k) {
  std::vector<float> d(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      d[i * n + j] = in[m * k + k * n + i * n + j];
      for (std::size_t l = 0; l < k; ++l) d[i * n + j] += in[i * k + l] * in[m * k + l * n + j];
    }
  return d;
}

/// One warp; the fragments are gathered by the formulas of the PTX manual.
std::string mma_source(const std::string& type, int k) {
  const std::string call = type == "tf32" ? "mma_m16n8k8_tf32(d, a, b)"
                                          : fmt::format("mma_m16n8k{}<{}>(d, a, b)", k, type);
  return kernel_source(fmt::format(R"(
    using T = {};
    constexpr int K = {};
    constexpr int kEach = sizeof(T) == 4 ? 1 : 2;  // elements of a register
    constexpr int kA = 16 * K / 32 / kEach, kB = 8 * K / 32 / kEach;
    const int group = thread >> 2, id = thread % 4;
    const float *A = in, *B = in + 16 * K, *C = B + 8 * K;
    u32 a[kA], b[kB];
    float d[4];
    for (int r = 0; r < kA; ++r) {{
      a[r] = 0;
      for (int i = 0; i < kEach; ++i) {{
        const int row = r % 2 == 0 ? group : group + 8;
        const int column = id * kEach + i + (r >= 2 ? 4 * kEach : 0);
        a[r] |= bits_of<T>(A[row * K + column]) << (16 * i);
      }}
    }}
    for (int r = 0; r < kB; ++r) {{
      b[r] = 0;
      for (int i = 0; i < kEach; ++i)
        b[r] |= bits_of<T>(B[(id * kEach + i + 4 * kEach * r) * 8 + group]) << (16 * i);
    }}
    for (int i = 0; i < 4; ++i) d[i] = C[(i < 2 ? group : group + 8) * 8 + id * 2 + (i & 1)];
    {};
    for (int i = 0; i < 4; ++i) out[(i < 2 ? group : group + 8) * 8 + id * 2 + (i & 1)] = d[i];
  )",
                                   type == "tf32" ? "float" : type, k, call),
                       R"(
template <class T>
__device__ u32 bits_of(float x) {
  if constexpr (sizeof(T) == 4) {
    return float_to_tf32(x);
  } else {
    return from_float<T>(x).bits;
  }
})");
}

TEST(Simt, ProductsOfTensorCores) {
  BRAZE_NEEDS_EMULATOR();
  for (const auto& [type, k] : std::vector<std::pair<std::string, int>>{
           {"half", 16}, {"bfloat16", 16}, {"half", 8}, {"bfloat16", 8}, {"tf32", 8}}) {
    const auto in = integers(static_cast<std::size_t>(24 * k + 128), 1);
    const auto out = run_kernels<float>(mma_source(type, k), {{1}, {32}, 0, 3}, in, 128);
    for (const auto& d : out)
      EXPECT_EQ(d, product(in, 16, 8, static_cast<std::size_t>(k))) << type << k;
  }
}

TEST(Simt, MatricesLoadAndStore) {
  BRAZE_NEEDS_EMULATOR();
  // Each matrix is an 8x8 block of 16-bit numbers 64 m + 8 row + column; rows are 48 bytes apart.
  const std::string source = kernel_source(R"(
    BRAZE_DYNAMIC_SHARED(shared);
    u16* const s = reinterpret_cast<u16*>(shared);
    for (int i = thread; i < 256; i += 32) s[i / 8 * 24 + i % 8] = static_cast<u16>(i);
    __syncthreads();
    u16* const row = s + 24 * thread;
    u32* const o = static_cast<u32*>(p.out);
    u32 r[4], t[4], two[2] = {};
    ldmatrix_x4(r, row);
    ldmatrix_x4_trans(t, row);
    ldmatrix_x2(two, thread < 16 ? row : nullptr);  // the other addresses are not used
    __syncwarp();
    stmatrix_x4_trans(row, r);
    __syncwarp();
    for (int i = 0; i < 4; ++i) {
      o[8 * thread + i] = r[i];
      o[8 * thread + 4 + i] = t[i];
    }
    for (int i = 0; i < 2; ++i) o[256 + 2 * thread + i] = two[i];
    __syncthreads();
    for (int i = thread; i < 256; i += 32) o[320 + i] = s[i / 8 * 24 + i % 8];
  )");
  const auto out =
      run_kernels<std::uint32_t>(source, {{1}, {32}, 1536}, std::vector<float>(1), 576)[0];
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::uint32_t m = 0; m < 4; ++m) {
      const std::uint32_t i = lane / 4, j = 2 * (lane % 4);
      const std::uint32_t plain = 64 * m + 8 * i + j, transposed = 64 * m + 8 * j + i;
      EXPECT_EQ(out[8 * lane + m], plain | (plain + 1) << 16);
      EXPECT_EQ(out[8 * lane + 4 + m], transposed | (transposed + 8) << 16);
      if (m < 2) {
        EXPECT_EQ(out[256 + 2 * lane + m], plain | (plain + 1) << 16);
      }
    }
  }
  for (std::uint32_t i = 0; i < 256; ++i)
    EXPECT_EQ(out[320 + i], i / 64 * 64 + i % 8 * 8 + i / 8 % 8);
}

TEST(SimtFinds, BadRowsOfMatrices) {
  BRAZE_NEEDS_EMULATOR();
  const std::string begin = "BRAZE_DYNAMIC_SHARED(s); u32 r[4];\n";
  EXPECT_THAT(error_of(begin + "ldmatrix_x4(r, s + 8 * thread);", {{1}, {32}, 1024}),
              HasSubstr("ldmatrix.x4: an address is not aligned to 16 bytes"));
  EXPECT_THAT(error_of(begin + "ldmatrix_x4(r, s + 16 + 16 * thread);", {{1}, {32}, 512}),
              HasSubstr("outside of the block's shared memory"));
  EXPECT_THAT(error_of(begin + "ldmatrix_x4(r, in);", {{1}, {32}, 512}),
              HasSubstr("outside of the block's shared memory"));
}

TEST(Simt, CopiesLandWhenTheyAreWaitedFor) {
  BRAZE_NEEDS_EMULATOR();
  const std::string source = kernel_source(R"(
    BRAZE_DYNAMIC_SHARED(shared);
    float* const s = reinterpret_cast<float*>(shared);
    const int other = 31 - thread;
    for (int i = 0; i < 4; ++i) s[4 * thread + i] = -1;
    cp_async_16(s + 4 * thread, in + 4 * thread, thread % 2 == 0 ? 16 : 4);
    cp_async_commit();
    cp_async_4(s + 128 + thread, in + thread, thread % 3 != 0);
    cp_async_commit();
    __syncthreads();
    out[thread] = s[4 * thread];
    cp_async_wait<1>();
    __syncthreads();
    for (int i = 0; i < 4; ++i) out[32 + 4 * other + i] = s[4 * other + i];
    out[160 + thread] = s[128 + thread];
    cp_async_wait<0>();
    __syncthreads();
    out[192 + other] = s[128 + other];
  )");
  std::vector<float> in(128);
  for (std::size_t i = 0; i < 128; ++i) in[i] = static_cast<float>(i + 1);
  for (const auto& out : run_kernels<float>(source, {{1}, {32}, 1024, 4}, in, 224)) {
    for (std::size_t t = 0; t < 32; ++t) {
      EXPECT_TRUE(std::isnan(out[t]));
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(out[32 + 4 * t + i], t % 2 == 0 || i == 0 ? in[4 * t + i] : 0);
      EXPECT_TRUE(std::isnan(out[160 + t]));
      EXPECT_EQ(out[192 + t], t % 3 != 0 ? in[t] : 0);
    }
  }
}

TEST(SimtFinds, BadCopies) {
  BRAZE_NEEDS_EMULATOR();
  const std::string begin = "BRAZE_DYNAMIC_SHARED(s);\n";
  EXPECT_THAT(error_of(begin + "cp_async_16(s, in + 1, 16);", {{1}, {1}, 64}),
              HasSubstr("not aligned"));
  EXPECT_EQ(error_of(begin + "cp_async_16(s, in + 1, 0);", {{1}, {1}, 64}), "");
  EXPECT_THAT(error_of(begin + "cp_async_16(s + 64, in, 16);", {{1}, {1}, 64}),
              HasSubstr("outside of the block's shared memory"));
}

TEST(Simt, WmmaFragments) {
  BRAZE_NEEDS_EMULATOR();
  for (const std::string type : {"half", "bfloat16"}) {
    for (const std::string form : {"row", "col"}) {
      const std::string source = kernel_source(fmt::format(
          R"(
    using T = {0};
    BRAZE_DYNAMIC_SHARED(shared);
    T* const a = reinterpret_cast<T*>(shared);
    T* const b = a + 16 * 24;
    float* const d = reinterpret_cast<float*>(shared + 2048);
    constexpr bool kRow = '{1}' == 'r';
    for (int e = thread; e < 256; e += 32) {{
      const int i = e / 16, j = e % 16, place = kRow ? i * 24 + j : j * 24 + i;
      a[place] = from_float<T>(in[e]);
      b[place] = from_float<T>(in[256 + e]);
    }}
    __syncwarp();
    u32 fa[8], fb[8];
    float fd[8];
    for (int i = 0; i < 8; ++i) fd[i] = 3;
    wmma_load_a_{2}(fa, a, 24);
    wmma_load_b_{2}(fb, b, 24);
    wmma_mma<T>(fd, fa, fb);
    for (int i = 0; i < 8; ++i) fd[i] *= 2;
    wmma_store_{2}(d, fd, 20);
    __syncwarp();
    for (int e = thread; e < 256; e += 32)
      out[e] = kRow ? d[e / 16 * 20 + e % 16] : d[e % 16 * 20 + e / 16];
  )",
          type, form[0], form));
      auto in = integers(768, 2);
      for (std::size_t i = 512; i < 768; ++i) in[i] = 3;
      auto want = product(in, 16, 16, 16);
      for (float& x : want) x *= 2;
      EXPECT_EQ(run_kernels<float>(source, {{1}, {32}, 4096}, in, 256)[0], want) << type << form;
    }
  }
}

TEST(Simt, SixteenBitFormatsRoundToNearestEven) {
  for (unsigned i = 0; i < 65536; ++i) {
    const auto bits = static_cast<unsigned short>(i);
    const float x = simt::half_value(bits), y = simt::bfloat16_value(bits);
    if (std::isnan(x)) {
      EXPECT_EQ(simt::half_bits(x), 0x7fff);
    } else {
      ASSERT_EQ(simt::half_bits(x), bits);
      // Between two neighbours: ties go to the even one.
      const float next = simt::half_value(static_cast<unsigned short>(bits + 1));
      if (std::isfinite(x) && std::isfinite(next) && (bits & 0x7fff) != 0x7fff) {
        const float middle = x / 2 + next / 2;
        ASSERT_EQ(simt::half_bits(middle), bits % 2 == 0 ? bits : bits + 1) << i;
        ASSERT_EQ(simt::half_bits(std::nextafter(middle, x)), bits) << i;
        ASSERT_EQ(simt::half_bits(std::nextafter(middle, next)), bits + 1) << i;
      }
    }
    if (!std::isnan(y)) {
      ASSERT_EQ(simt::bfloat16_bits(y), bits);
    }
  }
  EXPECT_EQ(simt::half_bits(65519.996f), 0x7bff);
  EXPECT_EQ(simt::half_bits(65520.0f), 0x7c00);
  EXPECT_EQ(simt::half_bits(0x1p-25f), 0);
  EXPECT_EQ(simt::half_bits(0x1.000002p-25f), 1);
  EXPECT_EQ(simt::bfloat16_bits(1.00390625f), 0x3f80);  // a tie
  EXPECT_EQ(simt::bfloat16_bits(1.01171875f), 0x3f82);
  EXPECT_EQ(std::bit_cast<float>(simt::tf32_bits(1.0f + 0x1p-11f)), 1.0f + 0x1p-10f);
  EXPECT_EQ(std::bit_cast<float>(simt::tf32_bits(1.0f + 0x1.8p-12f)), 1.0f);
}

}  // namespace
}  // namespace braze::test
