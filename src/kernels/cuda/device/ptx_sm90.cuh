// The instructions of sm_90a that CUDA C++ has no name for, one function each: barriers in shared
// memory that count bytes, copies by the tensor memory accelerator (TMA), clusters of blocks, and
// matrix products of a warpgroup (wgmma).
#pragma once

#include "braze/ptx.cuh"

namespace braze::device {
struct half;
struct bfloat16;
struct tf32;
}  // namespace braze::device

#ifdef BRAZE_EMULATED
#include <ptx_sm90.hpp>
#else

namespace braze::device {

// ---- Registers of a warpgroup: each of its warps says so. Up waits until others have gone down.

template <int kCount>
__device__ __forceinline__ void registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// ---- Barriers in shared memory (mbarrier). A barrier is in a phase, 0 at first. The phase ends,
// and the next one begins with the same count, when `count` arrivals have come and as many bytes
// as were announced have been written. Bytes may come before they are announced.

using Barrier = u64;

__device__ __forceinline__ void barrier_init(Barrier* barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
}
/// After barrier_init and before a barrier of threads: makes it known to the TMA and the cluster.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
/// Arrives once and announces `bytes` that this phase waits for.
__device__ __forceinline__ void barrier_arrive_expect(Barrier* barrier, u32 bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
/// Waits until a phase of this parity has ended: returns at once while the barrier is in a phase of
/// the other parity (parity 1 of a fresh barrier).
__device__ __forceinline__ void barrier_wait(Barrier* barrier, u32 parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra AGAIN; }" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
/// The same; what other blocks of the cluster wrote before they arrived is seen.
__device__ __forceinline__ void barrier_wait_cluster(Barrier* barrier, u32 parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra AGAIN; }" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// ---- Clusters: blocks that run at the same time and reach each other's shared memory.

__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// A barrier of all threads of the cluster, in two halves; each thread calls them in turn. It says
/// that blocks have begun and (barrier_init_fence) that their barriers are made: nothing else that
/// was written before is seen.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
/// The address in the cluster of what lies at p in this block, but in block `rank`.
__device__ __forceinline__ u32 cluster_address(const void* p, u32 rank) {
  u32 address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(p)), "r"(rank));
  return address;
}
/// Writes 16 bytes to a block of the cluster in the background; then counts them on a barrier of
/// that block.
__device__ __forceinline__ void cluster_store_async(u32 to, u32 barrier, float x, float y, float z,
                                                    float w) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, "
      "[%1];" ::"r"(to),
      "r"(barrier), "f"(x), "f"(y), "f"(z), "f"(w)
      : "memory");
}

// ---- TMA: one thread asks for a box of a tensor, whose map (CUtensorMap, a kernel parameter) says
// extents, strides and swizzle. What lies outside the tensor arrives as zeros. The bytes of the
// whole box are counted on the barrier when they are there.

__device__ __forceinline__ void tma_prefetch(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// A run of bytes, with no tensor: both ends at multiples of 16.
__device__ __forceinline__ void bulk_load(void* to, const void* from, Barrier* barrier, u32 bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
/// The box at (x, y): x along the innermost axis.
__device__ __forceinline__ void tma_load_2d(void* to, const void* map, Barrier* barrier, int x,
                                            int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%3, %4}], [%2];" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y)
      : "memory");
}
/// The same, into every block of the cluster whose bit is set in `blocks`: at the same place, and
/// counted on the same barrier, of each.
__device__ __forceinline__ void tma_load_2d_multicast(void* to, const void* map, Barrier* barrier,
                                                      int x, int y, u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "h"(blocks)
      : "memory");
}
/// The box at (c, x, y, n) of a tiled map over [n, y, x, c].
__device__ __forceinline__ void tma_load_4d(void* to, const void* map, Barrier* barrier, int c,
                                            int x, int y, int n) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(c), "r"(x), "r"(y), "r"(n)
      : "memory");
}
/// Of an im2col map over [n, y, x, c]: channels from c on of the map's number of pixels. The first
/// is (x, y, n); from it they step along x by the map's step until its box of pixels ends, then
/// begin a new row, and after the last row a new image. Each is read (offset_x, offset_y) further
/// on.
__device__ __forceinline__ void tma_load_im2col(void* to, const void* map, Barrier* barrier, int c,
                                                int x, int y, int n, int offset_x, int offset_y) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(c), "r"(x), "r"(y), "r"(n),
      "h"(static_cast<u16>(offset_x)), "h"(static_cast<u16>(offset_y))
      : "memory");
}

/// The box at (c, x, y, n) from shared memory to a tiled map over [n, y, x, c]; what lies outside
/// of the tensor is left out. Threads' stores to the box come before, then async_fence() by each,
/// then a barrier.
__device__ __forceinline__ void tma_store_4d(const void* map, const void* from, int c, int x, int y,
                                             int n) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::
          "l"(map),
      "r"(shared_address(from)), "r"(c), "r"(x), "r"(y), "r"(n)
      : "memory");
}
/// Ends a group of this thread's stores.
__device__ __forceinline__ void bulk_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until all but the last N of this thread's groups have read shared memory.
template <int N>
__device__ __forceinline__ void bulk_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
/// This thread's stores to shared memory come before what TMA and wgmma read after a barrier.
__device__ __forceinline__ void async_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// A barrier of `count` threads, all of their warps; id 0 is __syncthreads().
__device__ __forceinline__ void bar_sync(u32 id, u32 count) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
}
/// Counts a thread that does not wait.
__device__ __forceinline__ void bar_arrive(u32 id, u32 count) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory");
}
/// The reverse of ldmatrix_x4_trans: lane l holds, of each of four matrices, row l / 4, columns
/// 2 (l % 4) and the next; to the address of lane 8 i + j goes column j of matrix i.
__device__ __forceinline__ void stmatrix_x4_trans(void* row, const u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   shared_address(row)),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

// ---- Matrix products of a warpgroup: d[64, N] += a[64, k] b[N, k]^T with a and b in shared
// memory, k running along rows of both, 32 bytes of k at a time.

/// Describes an operand for wgmma: rows of kRowBytes (32, 64 or 128, swizzled by as many bytes, as
/// the TMA writes them), 8 rows lie together, the next 8 begin group_bytes after them. Adding
/// bytes / 16 to a descriptor moves its start: by 32 bytes along k, or by whole rows.
template <int kRowBytes>
__device__ __forceinline__ u64 matrix_descriptor(u32 address, u32 group_bytes = 8 * kRowBytes) {
  constexpr u64 kSwizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
  return (kSwizzle << 62) | (static_cast<u64>(group_bytes / 16) << 32) | (u64{1} << 16) |
         ((address & 0x3ffffu) / 16);
}
/// Before a warpgroup's first product, and after its registers or (generic) stores to operands.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Ends a group of products.
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most N of the warpgroup's groups are under way.
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/// After wgmma_wait: d is not read before here. Before wgmma_fence: d is written before here.
template <int N>
__device__ __forceinline__ void wgmma_registers(float (&d)[N]) {
  BRAZE_UNROLL
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Begins d = a b^T + (accumulate ? d : 0). Of warp w and lane l, with g = l / 4 and t = l % 4:
// d[4 j + 2 h + e] is row 16 w + g + 8 h, column 8 j + 2 t + e.

// clang-format off
#define BRAZE_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define BRAZE_D16(i) BRAZE_D8(i), BRAZE_D8(i + 8)
#define BRAZE_D32(i) BRAZE_D16(i), BRAZE_D16(i + 16)
#define BRAZE_D64(i) BRAZE_D32(i), BRAZE_D32(i + 32)
#define BRAZE_R16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define BRAZE_R8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define BRAZE_R24 BRAZE_R16 ", " "%16, %17, %18, %19, %20, %21, %22, %23"
#define BRAZE_R32 BRAZE_R16 ", " "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define BRAZE_R48 BRAZE_R32 ", " "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define BRAZE_R40 BRAZE_R32 ", " "%32, %33, %34, %35, %36, %37, %38, %39"
#define BRAZE_R56 BRAZE_R48 ", " "%48, %49, %50, %51, %52, %53, %54, %55"
#define BRAZE_R64 BRAZE_R48 ", " "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define BRAZE_R72 BRAZE_R64 ", " "%64, %65, %66, %67, %68, %69, %70, %71"
#define BRAZE_R80 BRAZE_R72 ", " "%72, %73, %74, %75, %76, %77, %78, %79"
#define BRAZE_R88 BRAZE_R80 ", " "%80, %81, %82, %83, %84, %85, %86, %87"
#define BRAZE_R96 BRAZE_R64 ", " "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define BRAZE_R104 BRAZE_R96 ", " "%96, %97, %98, %99, %100, %101, %102, %103"
#define BRAZE_R112 BRAZE_R96 ", " "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define BRAZE_R120 BRAZE_R112 ", " "%112, %113, %114, %115, %116, %117, %118, %119"
#define BRAZE_R128 BRAZE_R96 ", " "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define BRAZE_WGMMA(shape, type, registers, a_at, b_at, p_at, transpose, ...)                     \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" p_at ", 0;\n"                                   \
               "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" registers "}, "     \
               "%" a_at ", %" b_at ", p, 1, 1" transpose "; }"                                      \
               : __VA_ARGS__ : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
#define BRAZE_WGMMA_N(n, registers, a_at, b_at, p_at, ...)                                          \
  if constexpr (kSame<T, half>)                                                                     \
    BRAZE_WGMMA("m64n" n "k16", "f16", registers, a_at, b_at, p_at, ", 0, 0", __VA_ARGS__);         \
  else if constexpr (kSame<T, bfloat16>)                                                            \
    BRAZE_WGMMA("m64n" n "k16", "bf16", registers, a_at, b_at, p_at, ", 0, 0", __VA_ARGS__);        \
  else                                                                                              \
    BRAZE_WGMMA("m64n" n "k8", "tf32", registers, a_at, b_at, p_at, "", __VA_ARGS__)
// clang-format on

/// T is half, bfloat16 or tf32; columns are a multiple of 16, at most 256.
template <class T, int kRegisters>
__device__ __forceinline__ void wgmma(float (&d)[kRegisters], u64 a, u64 b, bool accumulate) {
  if constexpr (kRegisters == 8) {
    BRAZE_WGMMA_N("16", BRAZE_R8, "8", "9", "10", BRAZE_D8(0));
  } else if constexpr (kRegisters == 24) {
    BRAZE_WGMMA_N("48", BRAZE_R24, "24", "25", "26", BRAZE_D16(0), BRAZE_D8(16));
  } else if constexpr (kRegisters == 40) {
    BRAZE_WGMMA_N("80", BRAZE_R40, "40", "41", "42", BRAZE_D32(0), BRAZE_D8(32));
  } else if constexpr (kRegisters == 72) {
    BRAZE_WGMMA_N("144", BRAZE_R72, "72", "73", "74", BRAZE_D64(0), BRAZE_D8(64));
  } else if constexpr (kRegisters == 80) {
    BRAZE_WGMMA_N("160", BRAZE_R80, "80", "81", "82", BRAZE_D64(0), BRAZE_D16(64));
  } else if constexpr (kRegisters == 88) {
    BRAZE_WGMMA_N("176", BRAZE_R88, "88", "89", "90", BRAZE_D64(0), BRAZE_D16(64), BRAZE_D8(80));
  } else if constexpr (kRegisters == 104) {
    BRAZE_WGMMA_N("208", BRAZE_R104, "104", "105", "106", BRAZE_D64(0), BRAZE_D32(64),
                  BRAZE_D8(96));
  } else if constexpr (kRegisters == 16) {
    BRAZE_WGMMA_N("32", BRAZE_R16, "16", "17", "18", BRAZE_D16(0));
  } else if constexpr (kRegisters == 32) {
    BRAZE_WGMMA_N("64", BRAZE_R32, "32", "33", "34", BRAZE_D32(0));
  } else if constexpr (kRegisters == 48) {
    BRAZE_WGMMA_N("96", BRAZE_R48, "48", "49", "50", BRAZE_D32(0), BRAZE_D16(32));
  } else if constexpr (kRegisters == 56) {
    BRAZE_WGMMA_N("112", BRAZE_R56, "56", "57", "58", BRAZE_D32(0), BRAZE_D16(32), BRAZE_D8(48));
  } else if constexpr (kRegisters == 112) {
    BRAZE_WGMMA_N("224", BRAZE_R112, "112", "113", "114", BRAZE_D64(0), BRAZE_D32(64),
                  BRAZE_D16(96));
  } else if constexpr (kRegisters == 120) {
    BRAZE_WGMMA_N("240", BRAZE_R120, "120", "121", "122", BRAZE_D64(0), BRAZE_D32(64),
                  BRAZE_D16(96), BRAZE_D8(112));
  } else if constexpr (kRegisters == 64) {
    BRAZE_WGMMA_N("128", BRAZE_R64, "64", "65", "66", BRAZE_D64(0));
  } else if constexpr (kRegisters == 96) {
    BRAZE_WGMMA_N("192", BRAZE_R96, "96", "97", "98", BRAZE_D64(0), BRAZE_D32(64));
  } else {
    static_assert(kRegisters == 128, "no such width is written down");
    BRAZE_WGMMA_N("256", BRAZE_R128, "128", "129", "130", BRAZE_D64(0), BRAZE_D64(64));
  }
}

}  // namespace braze::device

#endif  // BRAZE_EMULATED
