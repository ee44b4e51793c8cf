// What runs beside the threads of a block: barriers in shared memory that count bytes, copies by
// TMA, products of a warpgroup. Here is what they do; Machine decides when.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "support/simt/runtime.hpp"
#include "support/simt/tma.hpp"

namespace braze::simt {

/// The 64 bits of an mbarrier. Shared memory is all ones before it is written.
struct MemoryBarrier {
  int bytes;                    // announced and not yet there; below 0 if they came first
  unsigned short count;         // arrivals of a phase
  unsigned short pending : 15;  // that are still to come
  unsigned short phase : 1;     // parity of the phase that the barrier is in

  [[nodiscard]] bool initialised() const { return count != 0xffff; }
  /// Whether that ended the phase.
  bool advance(unsigned arrivals, int announced, int landed);
};
static_assert(sizeof(MemoryBarrier) == 8);

/// XORs bits 4 to 6 of a shared-memory address by the bits above 7, as a swizzle of so many bytes.
unsigned swizzled(unsigned address, unsigned swizzle_bytes);

/// Elements of a box, in the order in which they lie in shared memory: for each row of it, where it
/// begins (null: zeros), and how much of it exists.
struct BoxRow {
  const unsigned char* from;
  unsigned skipped;  // bytes that are zeros at the beginning
  unsigned bytes;    // that exist after these
};
/// Rows are `row_bytes` long. The error in `wrong`, "" if there is none.
std::vector<BoxRow> rows_of(const TmaDescriptor& map, const TmaLoad& load, unsigned& row_bytes,
                            std::string& wrong);

/// The products of one warpgroup. They are computed in order, some time between their issue and the
/// wait for their group, and until then their accumulators are NaN.
class WarpgroupProducts {
 public:
  /// `at` reads shared memory of the block. d[thread] is each thread's accumulators. Message or "".
  std::string issue(const Wgmma& product, const std::array<float*, 128>& d, bool fenced,
                    bool at_once, const std::function<const void*(unsigned address)>& at);
  void commit();
  void wait(unsigned groups, const std::function<const void*(unsigned address)>& at);
  void clear();

 private:
  struct Accumulators {
    std::array<float*, 128> d;  // of each thread
    unsigned columns = 0, pending = 0;
    std::vector<float> values;  // [64][columns]
  };
  struct Pending {
    Wgmma product;
    Accumulators* to;
    unsigned group;
    bool done = false;
  };
  static void compute(Pending& pending, const std::function<const void*(unsigned address)>& at);
  Accumulators& open(const Wgmma& product, const std::array<float*, 128>& d);
  static void publish(Accumulators& accumulators);

  std::list<Accumulators> accumulators_;
  std::deque<Pending> pending_;
  unsigned group_ = 0;  // that is being filled
};

}  // namespace braze::simt
