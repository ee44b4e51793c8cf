#include "support/simt/meeting.hpp"

#include <cstdint>
#include <cstring>

#include "support/simt/formats.hpp"

namespace braze::simt {

namespace {

using Parts = std::span<void* const, 32>;
using IsShared = bool (*)(const void* p, unsigned bytes);

constexpr const char* kPartialWarp = "not all 32 lanes of the warp take part";
constexpr const char* kMisaligned = "an address is not aligned to 16 bytes";
constexpr const char* kNotShared = "an address is outside of the block's shared memory";

template <class T>
T& part(Parts parts, unsigned lane) {
  return *static_cast<T*>(parts[lane]);
}

void shuffle(Parts parts, unsigned mask) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1u) == 0) continue;
    auto& to = part<Shuffle>(parts, lane);
    const unsigned from = to.source & 31u;
    // the value of a lane that is not there is undefined
    to.result = (mask >> from & 1u) != 0 ? part<Shuffle>(parts, from).value : ~0ull;
  }
}

void ballot(Parts parts, unsigned mask) {
  unsigned result = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1u) != 0 && part<Ballot>(parts, lane).predicate) result |= 1u << lane;
  }
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1u) != 0) part<Ballot>(parts, lane).result = result;
}

const char* check_rows(Parts parts, unsigned matrices, IsShared is_shared) {
  for (unsigned lane = 0; lane < 8 * matrices; ++lane) {
    const void* row = part<MatrixRows>(parts, lane).row;
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) return kMisaligned;
    if (!is_shared(row, 16)) return kNotShared;
  }
  return nullptr;
}

/// Lane l holds, of each 8x8 matrix, row l / 4, columns 2 (l % 4) and the next; transposed, the
/// element's row and column are exchanged.
const char* ldmatrix(Parts parts, unsigned matrices, bool transposed, IsShared is_shared) {
  if (const char* wrong = check_rows(parts, matrices, is_shared)) return wrong;
  for (unsigned m = 0; m < matrices; ++m) {
    std::uint16_t at[8][8];
    for (unsigned row = 0; row < 8; ++row)
      std::memcpy(at[row], part<MatrixRows>(parts, 8 * m + row).row, 16);
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned i = lane / 4, j = 2 * (lane % 4);
      const unsigned low = transposed ? at[j][i] : at[i][j];
      const unsigned high = transposed ? at[j + 1][i] : at[i][j + 1];
      part<MatrixRows>(parts, lane).registers[m] = low | high << 16;
    }
  }
  return nullptr;
}

const char* stmatrix(Parts parts, unsigned matrices, bool transposed, IsShared is_shared) {
  if (const char* wrong = check_rows(parts, matrices, is_shared)) return wrong;
  for (unsigned m = 0; m < matrices; ++m) {
    std::uint16_t at[8][8];
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned i = lane / 4, j = 2 * (lane % 4);
      const unsigned x = part<MatrixRows>(parts, lane).registers[m];
      (transposed ? at[j][i] : at[i][j]) = static_cast<std::uint16_t>(x);
      (transposed ? at[j + 1][i] : at[i][j + 1]) = static_cast<std::uint16_t>(x >> 16);
    }
    for (unsigned row = 0; row < 8; ++row)
      std::memcpy(part<MatrixRows>(parts, 8 * m + row).row, at[row], 16);
  }
  return nullptr;
}

template <bool kBfloat16>
float element(unsigned x) {
  return kBfloat16 ? bfloat16_value(static_cast<std::uint16_t>(x))
                   : half_value(static_cast<std::uint16_t>(x));
}

using Float4 = float __attribute__((vector_size(16)));
using Unsigned4 = unsigned __attribute__((vector_size(16)));

/// half_value() or bfloat16_value() of four.
template <bool kBfloat16>
Float4 elements(Unsigned4 x) {
  if constexpr (kBfloat16) return reinterpret_cast<Float4>(x << 16);
  const Unsigned4 magnitude = (x & 0x7fffu) << 13, sign = (x & 0x8000u) << 16;
  const Unsigned4 infinite = reinterpret_cast<Unsigned4>(magnitude >= 0x0f800000u) & 0x7f800000u;
  const Float4 scaled = reinterpret_cast<Float4>(magnitude) * 0x1p112f;
  return reinterpret_cast<Float4>(reinterpret_cast<Unsigned4>(scaled) | infinite | sign);
}

/// The 4 registers of each lane, register by register.
using Registers = float[4][32];

/// What a register holds: its low and its high half.
template <bool kBfloat16>
void convert(const unsigned (&from)[4][32], Registers& low, Registers& high, unsigned registers) {
  for (unsigned r = 0; r < registers; ++r) {
    for (unsigned lane = 0; lane < 32; lane += 4) {
      Unsigned4 x;
      std::memcpy(&x, &from[r][lane], sizeof x);
      const Float4 l = elements<kBfloat16>(x & 0xffffu), h = elements<kBfloat16>(x >> 16);
      std::memcpy(&low[r][lane], &l, sizeof l);
      std::memcpy(&high[r][lane], &h, sizeof h);
    }
  }
}

/// d[16][8] += a[16][K] b[K][8], k ascending.
template <unsigned K>
void accumulate(float (&d)[16][8], const float (&a)[16][K], const float (&b)[K][8]) {
  Float4 rows[K][2];
  std::memcpy(rows, b, sizeof rows);
  for (unsigned m = 0; m < 16; ++m) {
    Float4 sum[2];
    std::memcpy(sum, d[m], sizeof sum);
    for (unsigned k = 0; k < K; ++k) {
      sum[0] += a[m][k] * rows[k][0];
      sum[1] += a[m][k] * rows[k][1];
    }
    std::memcpy(d[m], sum, sizeof sum);
  }
}

/// `place` fills a and b from the lanes' registers (kA and kB of each).
template <unsigned K, unsigned kA, unsigned kB, class Place>
void mma(Parts parts, const Place& place) {
  float d[16][8], a[16][K], b[K][8];
  unsigned own_a[4][32], own_b[4][32];
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned g = lane / 4, t = lane % 4;
    const Mma& own = part<Mma>(parts, lane);
    for (unsigned i = 0; i < 4; ++i) d[g + i / 2 * 8][2 * t + i % 2] = own.d[i];
    for (unsigned r = 0; r < kA; ++r) own_a[r][lane] = own.a[r];
    for (unsigned r = 0; r < kB; ++r) own_b[r][lane] = own.b[r];
  }
  place(own_a, own_b, a, b);
  accumulate(d, a, b);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < 4; ++i) part<Mma>(parts, lane).d[i] = d[g + i / 2 * 8][2 * t + i % 2];
  }
}

/// K = 16 (two pairs of registers of a) or 8 (one).
template <unsigned K, bool kBfloat16>
void mma_16_bit(Parts parts) {
  constexpr unsigned kB = K / 8, kA = 2 * kB;
  mma<K, kA, kB>(parts, [](const unsigned(&own_a)[4][32], const unsigned(&own_b)[4][32],
                           float(&a)[16][K], float(&b)[K][8]) {
    Registers low, high;
    convert<kBfloat16>(own_a, low, high, kA);
    for (unsigned r = 0; r < kA; ++r) {
      for (unsigned lane = 0; lane < 32; ++lane) {
        float* const to = &a[lane / 4 + r % 2 * 8][lane % 4 * 2 + r / 2 * 8];
        to[0] = low[r][lane];
        to[1] = high[r][lane];
      }
    }
    convert<kBfloat16>(own_b, low, high, kB);
    for (unsigned r = 0; r < kB; ++r) {
      for (unsigned lane = 0; lane < 32; ++lane) {
        b[lane % 4 * 2 + r * 8][lane / 4] = low[r][lane];
        b[lane % 4 * 2 + r * 8 + 1][lane / 4] = high[r][lane];
      }
    }
  });
}

/// The tensor cores do not read the low 13 bits of a tf32 operand.
void mma_tf32(Parts parts) {
  mma<8, 4, 2>(parts, [](const unsigned(&own_a)[4][32], const unsigned(&own_b)[4][32],
                         float(&a)[16][8], float(&b)[8][8]) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned g = lane / 4, t = lane % 4;
      for (unsigned r = 0; r < 4; ++r)
        a[g + r % 2 * 8][t + r / 2 * 4] = value_of(own_a[r][lane] & ~0x1fffu);
      for (unsigned r = 0; r < 2; ++r) b[t + 4 * r][g] = value_of(own_b[r][lane] & ~0x1fffu);
    }
  });
}

// Fragments of wmma are opaque: element e of a 16x16 matrix is in lane place(e) % 32, at place
// place(e) / 32 there. Nobody may rely on the factors.

unsigned input_place(unsigned e) { return (e * 37 + 11) % 256; }
unsigned accumulator_place(unsigned e) { return (e * 53 + 7) % 256; }

std::uint16_t& input_element(void* registers, unsigned i) {
  return static_cast<std::uint16_t*>(registers)[i];
}

const char* check_wmma(Parts parts, std::size_t element_bytes) {
  const auto& first = part<WmmaMatrix>(parts, 0);
  for (unsigned lane = 1; lane < 32; ++lane) {
    const auto& own = part<WmmaMatrix>(parts, lane);
    if (own.memory != first.memory || own.ld != first.ld) return "addresses or strides differ";
  }
  if (reinterpret_cast<std::uintptr_t>(first.memory) % 32 != 0)
    return "the address is not aligned to 32 bytes";
  if (first.ld * element_bytes % 16 != 0) return "the stride is no multiple of 16 bytes";
  return nullptr;
}

/// B is held like A, and read as b[k][n].
const char* wmma_load(Parts parts) {
  if (const char* wrong = check_wmma(parts, 2)) return wrong;
  const auto& matrix = part<WmmaMatrix>(parts, 0);
  const auto* memory = static_cast<const std::uint16_t*>(matrix.memory);
  for (unsigned e = 0; e < 256; ++e) {
    const unsigned i = e / 16, j = e % 16, place = input_place(e);
    input_element(part<WmmaMatrix>(parts, place % 32).registers, place / 32) =
        matrix.transposed ? memory[j * matrix.ld + i] : memory[i * matrix.ld + j];
  }
  return nullptr;
}

template <bool kBfloat16>
void wmma_mma(Parts parts) {
  float a[16][16], b[16][16], d[16][16];
  for (unsigned e = 0; e < 256; ++e) {
    const unsigned in = input_place(e), out = accumulator_place(e);
    const Mma& own = part<Mma>(parts, in % 32);
    a[e / 16][e % 16] = element<kBfloat16>(reinterpret_cast<const std::uint16_t*>(own.a)[in / 32]);
    b[e / 16][e % 16] = element<kBfloat16>(reinterpret_cast<const std::uint16_t*>(own.b)[in / 32]);
    d[e / 16][e % 16] = part<Mma>(parts, out % 32).d[out / 32];
  }
  for (auto m = 0; m < 16; ++m) {
    for (auto k = 0; k < 16; ++k)
      for (auto n = 0; n < 16; ++n) d[m][n] += a[m][k] * b[k][n];
  }
  for (unsigned e = 0; e < 256; ++e) {
    const unsigned out = accumulator_place(e);
    part<Mma>(parts, out % 32).d[out / 32] = d[e / 16][e % 16];
  }
}

const char* wmma_store(Parts parts) {
  if (const char* wrong = check_wmma(parts, 4)) return wrong;
  const auto& matrix = part<WmmaMatrix>(parts, 0);
  auto* memory = static_cast<float*>(matrix.memory);
  for (unsigned e = 0; e < 256; ++e) {
    const unsigned i = e / 16, j = e % 16, place = accumulator_place(e);
    const auto* own = static_cast<const float*>(part<WmmaMatrix>(parts, place % 32).registers);
    memory[matrix.transposed ? j * matrix.ld + i : i * matrix.ld + j] = own[place / 32];
  }
  return nullptr;
}

}  // namespace

const char* name_of(Meeting meeting) {
  static constexpr const char* kNames[] = {
      "__syncwarp",        "__shfl_sync",       "__ballot_sync",     "ldmatrix.x1",
      "ldmatrix.x2",       "ldmatrix.x4",       "ldmatrix.x1.trans", "ldmatrix.x2.trans",
      "ldmatrix.x4.trans", "stmatrix.x1",       "stmatrix.x2",       "stmatrix.x4",
      "stmatrix.x1.trans", "stmatrix.x2.trans", "stmatrix.x4.trans", "mma.m16n8k16.f16",
      "mma.m16n8k16.bf16", "mma.m16n8k8.f16",   "mma.m16n8k8.bf16",  "mma.m16n8k8.tf32",
      "wmma.load.a",       "wmma.load.b",       "wmma.mma.f16",      "wmma.mma.bf16",
      "wmma.store.d"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Meeting::kCount));
  return kNames[static_cast<std::size_t>(meeting)];
}

const char* hold(Meeting meeting, Parts parts, unsigned mask, IsShared is_shared) {
  switch (meeting) {
    case Meeting::kSyncWarp:
      return nullptr;
    case Meeting::kShuffle:
      return shuffle(parts, mask), nullptr;
    case Meeting::kBallot:
      return ballot(parts, mask), nullptr;
    default:
      break;
  }
  if (mask != ~0u) return kPartialWarp;
  switch (meeting) {
    case Meeting::kLdmatrix1:
      return ldmatrix(parts, 1, false, is_shared);
    case Meeting::kLdmatrix2:
      return ldmatrix(parts, 2, false, is_shared);
    case Meeting::kLdmatrix4:
      return ldmatrix(parts, 4, false, is_shared);
    case Meeting::kLdmatrix1Trans:
      return ldmatrix(parts, 1, true, is_shared);
    case Meeting::kLdmatrix2Trans:
      return ldmatrix(parts, 2, true, is_shared);
    case Meeting::kLdmatrix4Trans:
      return ldmatrix(parts, 4, true, is_shared);
    case Meeting::kStmatrix1:
      return stmatrix(parts, 1, false, is_shared);
    case Meeting::kStmatrix2:
      return stmatrix(parts, 2, false, is_shared);
    case Meeting::kStmatrix4:
      return stmatrix(parts, 4, false, is_shared);
    case Meeting::kStmatrix1Trans:
      return stmatrix(parts, 1, true, is_shared);
    case Meeting::kStmatrix2Trans:
      return stmatrix(parts, 2, true, is_shared);
    case Meeting::kStmatrix4Trans:
      return stmatrix(parts, 4, true, is_shared);
    case Meeting::kMma16816Half:
      return mma_16_bit<16, false>(parts), nullptr;
    case Meeting::kMma16816Bfloat16:
      return mma_16_bit<16, true>(parts), nullptr;
    case Meeting::kMma1688Half:
      return mma_16_bit<8, false>(parts), nullptr;
    case Meeting::kMma1688Bfloat16:
      return mma_16_bit<8, true>(parts), nullptr;
    case Meeting::kMma1688Tf32:
      return mma_tf32(parts), nullptr;
    case Meeting::kWmmaLoadA:
    case Meeting::kWmmaLoadB:
      return wmma_load(parts);
    case Meeting::kWmmaMmaHalf:
      return wmma_mma<false>(parts), nullptr;
    case Meeting::kWmmaMmaBfloat16:
      return wmma_mma<true>(parts), nullptr;
    case Meeting::kWmmaStore:
      return wmma_store(parts);
    default:
      return "no such meeting";
  }
}

}  // namespace braze::simt
