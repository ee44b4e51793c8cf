// What emulated kernels and the machine that runs them share: one table of state and functions,
// handed to each compiled module when it is loaded. C++17, and no standard header: kernel sources
// include this.
#pragma once

namespace braze::simt {

struct Index {
  unsigned x, y, z;
};

/// What a running thread knows of itself; the machine keeps more behind it.
struct Self {
  Index index;      // threadIdx
  unsigned linear;  // in the block, x fastest
  unsigned lane;    // linear % 32
  unsigned warp;    // linear / 32
};

/// Operations at which the lanes of a mask meet. All lanes must name the same one.
enum class Meeting : unsigned {
  kSyncWarp,
  kShuffle,
  kBallot,
  kLdmatrix1,
  kLdmatrix2,
  kLdmatrix4,
  kLdmatrix1Trans,
  kLdmatrix2Trans,
  kLdmatrix4Trans,
  kStmatrix1,
  kStmatrix2,
  kStmatrix4,
  kStmatrix1Trans,
  kStmatrix2Trans,
  kStmatrix4Trans,
  kMma16816Half,
  kMma16816Bfloat16,
  kMma1688Half,
  kMma1688Bfloat16,
  kMma1688Tf32,
  kWmmaLoadA,
  kWmmaLoadB,
  kWmmaMmaHalf,
  kWmmaMmaBfloat16,
  kWmmaStore,
  kCount
};

// What a lane brings to a meeting, and where it finds its part of the result.

struct Shuffle {
  unsigned source;  // lane
  unsigned long long value, result;
};
struct Ballot {
  bool predicate;
  unsigned result;
};
struct MatrixRows {
  unsigned* registers;
  void* row;
};
struct Mma {
  float* d;
  const unsigned *a, *b;
};
/// A 16x16 matrix in memory, element (i, j) at i * ld + j, or j * ld + i where `transposed`.
struct WmmaMatrix {
  void* registers;
  void* memory;
  unsigned ld;
  bool transposed;
};

enum class Reduction : unsigned { kNone, kCount, kAnd, kOr };

/// d[64, N] = a b^T + (accumulate ? d : 0) of a warpgroup; a and b are wgmma's descriptors.
struct Wgmma {
  enum class Type : unsigned { kHalf, kBfloat16, kTf32 };
  float* d;            // the thread's N / 2 accumulators
  unsigned registers;  // N / 2
  Type type;
  bool accumulate;
  unsigned long long a, b;
};

/// A box of a tensor to shared memory, by TMA.
struct TmaLoad {
  void* to;
  const void* map;
  void* barrier;
  unsigned rank;
  int coordinates[5];  // innermost axis first
  bool im2col;
  int offsets[3];
  unsigned blocks;  // of the cluster, a bit each; 0: this one
};

/// Pointers are of the running thread's block; addresses are those that kernels see, of the block
/// or of one of its cluster.
struct Runtime {
  const Self* self;  // the thread that runs now
  Index block, block_dim, grid_dim;
  unsigned char* shared;  // dynamic shared memory
  unsigned shared_bytes;
  unsigned cluster_rank, cluster_blocks;
  unsigned polls;  // atomics and other reads that a thread may spin on

  /// bar.sync; count 0: all threads of the block. The result is that of the reduction.
  int (*barrier)(unsigned id, unsigned count, Reduction reduction, int predicate, const char* file,
                 int line);
  void (*arrive)(unsigned id, unsigned count);
  void (*meet)(Meeting meeting, void* part, unsigned mask);
  /// Lets other threads run.
  void (*yield)();
  /// Ends the launch with an error.
  void (*fail)(const char* message);
  unsigned (*active_lanes)();
  unsigned (*shared_address)(const void* pointer);
  void (*dependency_wait)();

  void (*copy_async)(void* shared, const void* global, unsigned bytes, unsigned valid);
  void (*copy_commit)();
  void (*copy_wait)(unsigned groups);

  void (*mbarrier_init)(void* barrier, unsigned count);
  void (*mbarrier_arrive)(unsigned barrier, unsigned expected_bytes);
  void (*mbarrier_wait)(void* barrier, unsigned parity);
  unsigned (*cluster_address)(unsigned address, unsigned rank);
  void (*cluster_arrive)();
  void (*cluster_wait)();
  void (*store_async)(unsigned to, unsigned barrier, const void* data, unsigned bytes);
  void (*tma_load)(const TmaLoad& load);
  void (*bulk_load)(void* to, const void* from, void* barrier, unsigned bytes);
  /// load.to is read, what the box names is written; load.barrier is not used.
  void (*tma_store)(const TmaLoad& load);
  void (*bulk_commit)();
  void (*bulk_wait)(unsigned groups);
  void (*wgmma)(const Wgmma& product);
  void (*wgmma_fence)();
  void (*wgmma_commit)();
  void (*wgmma_wait)(unsigned groups);
};

/// A kernel of a module.
struct Entry {
  const char* name;
  void (*run)(const void* parameters);
  unsigned parameter_bytes;
  unsigned threads;  // of __launch_bounds__, 0: none
};

/// What a module exports as `braze_simt_module`.
struct ModuleTable {
  const Entry* entries;
  unsigned count;
  Runtime** runtime;                     // to be set when the module is loaded
  unsigned char *statics, *statics_end;  // holds its static shared memory
};

}  // namespace braze::simt
