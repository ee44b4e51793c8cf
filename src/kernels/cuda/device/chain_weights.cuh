// Weights of a chain on their way to shared memory: one stream of slots, in the order in which a
// tile uses them, over and over. acquire() is the next slot, there for all threads; what the one
// before held may be gone.
#pragma once

#include "braze/chain_parameters.h"
#include "braze/types.cuh"

namespace braze::device {

/// The order of slots, read one ahead.
class ChainOrder {
 public:
  __device__ explicit ChainOrder(const ChainParameters& p)
      : order_(p.order), slots_(p.slots), next_(slots_ > 0 ? *order_ : ChainSlot{}) {}
  __device__ __forceinline__ ChainSlot take() {
    const ChainSlot slot = next_;
    at_ = at_ + 1 == slots_ ? 0 : at_ + 1;
    next_ = order_[at_];
    return slot;
  }

 private:
  const ChainSlot* order_;
  int slots_, at_ = 0;
  ChainSlot next_;
};

/// Slots that this block uses for all its tiles.
__device__ __forceinline__ int chain_slots(const ChainParameters& p) {
  return (p.tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) /
         static_cast<int>(gridDim.x) * p.slots;
}

/// A ring that is filled in the background.
template <int kSlots>
class ChainRing {
 public:
  static_assert((kSlots & (kSlots - 1)) == 0, "a power of two");
  __device__ ChainRing(const ChainParameters& p, unsigned char* to)
      : weights_(p.weights), to_(to), order_(p), left_(chain_slots(p)) {
    BRAZE_UNROLL
    for (int i = 0; i < kSlots - 1; ++i) bring();
  }
  __device__ __forceinline__ const unsigned char* acquire() {
    cp_async_wait<kSlots - 2>();
    __syncthreads();  // the slot is there, and everybody is done with the one before
    const unsigned char* const slot = to_ + taken_ % kSlots * kChainSlotBytes;
    ++taken_;
    bring();
    return slot;
  }

 private:
  __device__ __forceinline__ void bring() {
    if (left_ > 0) {
      --left_;
      const ChainSlot slot = order_.take();
      unsigned char* const to = to_ + brought_ % kSlots * kChainSlotBytes;
      for (int i = static_cast<int>(threadIdx.x) * 16; i < slot.bytes; i += kChainThreads * 16)
        cp_async_16(to + i, weights_ + slot.offset + i, 16);
    }
    ++brought_;
    cp_async_commit();
  }

  const unsigned char* weights_;
  unsigned char* to_;
  ChainOrder order_;
  int left_;
  u32 taken_ = 0, brought_ = 0;
};

/// Two slots, filled through registers.
class ChainPair {
 public:
  __device__ ChainPair(const ChainParameters& p, unsigned char* to)
      : weights_(p.weights), to_(to), order_(p), left_(chain_slots(p)) {
    bring();
  }
  __device__ __forceinline__ const unsigned char* acquire() {
    unsigned char* const slot = to_ + taken_ % 2 * kChainSlotBytes;
    ++taken_;
    BRAZE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int at = (static_cast<int>(threadIdx.x) + i * kChainThreads) * 16;
      if (at < bytes_) store_words(slot + at, raw_[i]);
    }
    __syncthreads();  // the slot is there, and everybody is done with the one before
    bring();
    return slot;
  }

 private:
  static constexpr int kEach = kChainSlotBytes / 16 / kChainThreads;
  __device__ __forceinline__ void bring() {
    bytes_ = 0;
    if (left_ == 0) return;
    --left_;
    const ChainSlot slot = order_.take();
    bytes_ = slot.bytes;
    BRAZE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int at = (static_cast<int>(threadIdx.x) + i * kChainThreads) * 16;
      if (at < bytes_) raw_[i] = load_words<4>(weights_ + slot.offset + at);
    }
  }

  const unsigned char* weights_;
  unsigned char* to_;
  ChainOrder order_;
  int left_, bytes_ = 0;
  u32 taken_ = 0;
  Words<4> raw_[kEach];
};

/// All weights stay in shared memory, from before the first tile to behind the last.
class ChainResident {
 public:
  __device__ ChainResident(const ChainParameters& p, unsigned char* to) : to_(to), order_(p) {
    for (int i = static_cast<int>(threadIdx.x) * 16; i < p.weight_bytes; i += kChainThreads * 16)
      store_words(to + i, load_words<4>(p.weights + i));
  }
  __device__ __forceinline__ const unsigned char* acquire() { return to_ + order_.take().offset; }

 private:
  unsigned char* to_;
  ChainOrder order_;
};

}  // namespace braze::device
