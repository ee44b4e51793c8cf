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

struct Runtime {
  const Self* self;  // the thread that runs now
  Index block, block_dim, grid_dim;
  unsigned char* shared;  // dynamic shared memory
  unsigned shared_bytes;
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
  void* (*shared_pointer)(unsigned address);
  void (*copy_async)(void* shared, const void* global, unsigned bytes, unsigned valid);
  void (*copy_commit)();
  void (*copy_wait)(unsigned groups);
  void (*dependency_wait)();
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
