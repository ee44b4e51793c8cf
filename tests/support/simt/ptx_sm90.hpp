// The functions of braze/ptx_sm90.cuh for emulated kernels, which include this instead.
#pragma once

#include "ptx.hpp"

namespace braze::device {

struct tf32;

/// The emulation does not count registers.
template <int kCount>
__device__ __forceinline__ void registers_down() {
  static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256, "as setmaxnreg has it");
  __syncwarp();
}
template <int kCount>
__device__ __forceinline__ void registers_up() {
  static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256, "as setmaxnreg has it");
  __syncwarp();
}

using Barrier = u64;

__device__ __forceinline__ void barrier_init(Barrier* barrier, u32 count) {
  simt::runtime->mbarrier_init(barrier, count);
}
__device__ __forceinline__ void barrier_init_fence() {}
__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
  simt::runtime->mbarrier_arrive(shared_address(barrier), 0);
}
__device__ __forceinline__ void barrier_arrive_expect(Barrier* barrier, u32 bytes) {
  simt::runtime->mbarrier_arrive(shared_address(barrier), bytes);
}
__device__ __forceinline__ void barrier_wait(Barrier* barrier, u32 parity) {
  simt::runtime->mbarrier_wait(barrier, parity);
}
__device__ __forceinline__ void barrier_wait_cluster(Barrier* barrier, u32 parity) {
  simt::runtime->mbarrier_wait(barrier, parity);
}

__device__ __forceinline__ u32 cluster_rank() { return simt::runtime->cluster_rank; }
__device__ __forceinline__ void cluster_arrive() { simt::runtime->cluster_arrive(); }
__device__ __forceinline__ void cluster_wait() { simt::runtime->cluster_wait(); }
__device__ __forceinline__ u32 cluster_address(const void* p, u32 rank) {
  return simt::runtime->cluster_address(shared_address(p), rank);
}
__device__ __forceinline__ void cluster_store_async(u32 to, u32 barrier, float x, float y, float z,
                                                    float w) {
  const float data[4] = {x, y, z, w};
  simt::runtime->store_async(to, barrier, data, sizeof data);
}

__device__ __forceinline__ void bulk_load(void* to, const void* from, Barrier* barrier, u32 bytes) {
  simt::runtime->bulk_load(to, from, barrier, bytes);
}
__device__ __forceinline__ void tma_prefetch(const void*) {}
__device__ __forceinline__ void tma_load_2d(void* to, const void* map, Barrier* barrier, int x,
                                            int y) {
  simt::runtime->tma_load({to, map, barrier, 2, {x, y}, false, {}, 0});
}
__device__ __forceinline__ void tma_load_2d_multicast(void* to, const void* map, Barrier* barrier,
                                                      int x, int y, u16 blocks) {
  simt::runtime->tma_load({to, map, barrier, 2, {x, y}, false, {}, blocks});
}
__device__ __forceinline__ void tma_load_3d(void* to, const void* map, Barrier* barrier, int x,
                                            int y, int z) {
  simt::runtime->tma_load({to, map, barrier, 3, {x, y, z}, false, {}, 0});
}
__device__ __forceinline__ void tma_load_4d(void* to, const void* map, Barrier* barrier, int c,
                                            int x, int y, int n) {
  simt::runtime->tma_load({to, map, barrier, 4, {c, x, y, n}, false, {}, 0});
}
__device__ __forceinline__ void tma_load_im2col(void* to, const void* map, Barrier* barrier, int c,
                                                int x, int y, int n, int offset_x, int offset_y) {
  simt::runtime->tma_load({to, map, barrier, 4, {c, x, y, n}, true, {offset_x, offset_y}, 0});
}
__device__ __forceinline__ void tma_store_4d(const void* map, const void* from, int c, int x, int y,
                                             int n) {
  simt::runtime->tma_store({const_cast<void*>(from), map, nullptr, 4, {c, x, y, n}, false, {}, 0});
}
__device__ __forceinline__ void bulk_store_commit() { simt::runtime->bulk_commit(); }
template <int N>
__device__ __forceinline__ void bulk_store_wait_read() {
  simt::runtime->bulk_wait(N);
}
__device__ __forceinline__ void async_fence() {}

template <int kRowBytes>
__device__ __forceinline__ u64 matrix_descriptor(u32 address, u32 group_bytes = 8 * kRowBytes) {
  constexpr u64 kSwizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
  return (kSwizzle << 62) | (static_cast<u64>(group_bytes / 16) << 32) | (u64{1} << 16) |
         ((address & 0x3ffffu) / 16);
}
__device__ __forceinline__ void wgmma_fence() { simt::runtime->wgmma_fence(); }
__device__ __forceinline__ void wgmma_commit() { simt::runtime->wgmma_commit(); }
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  simt::runtime->wgmma_wait(N);
}
template <int N>
__device__ __forceinline__ void wgmma_registers(float (&)[N]) {}

template <class T, int kRegisters>
__device__ __forceinline__ void wgmma(float (&d)[kRegisters], u64 a, u64 b, bool accumulate) {
  static_assert(kSame<T, half> || kSame<T, bfloat16> || kSame<T, tf32>, "half, bfloat16 or tf32");
  static_assert(kRegisters % 4 == 0 && kRegisters <= 128, "a multiple of 8 columns, at most 256");
  constexpr auto kType = kSame<T, half>       ? simt::Wgmma::Type::kHalf
                         : kSame<T, bfloat16> ? simt::Wgmma::Type::kBfloat16
                                              : simt::Wgmma::Type::kTf32;
  simt::runtime->wgmma({d, kRegisters, kType, accumulate, a, b});
}

}  // namespace braze::device
