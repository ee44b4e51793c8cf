// What tests tell the fake driver, and what it tells them.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "exec/cuda/api.hpp"

namespace braze::cuda::fake {

struct Launched {
  std::string kernel;
  api::LaunchConfig config;
  unsigned cluster = 1;
  bool overlaps = false;
  std::vector<std::byte> parameters;  // the first eight bytes
  std::set<std::string> after;        // captured: what comes before it; "" for what is no kernel
};

struct State {
  int version = 12080;
  int devices = 1;
  std::string name = "Fake H200";
  int sm = 90;
  std::size_t memory_bytes = std::size_t{1} << 30;
  std::map<std::string, int> errors;  // what a function returns from now on
  std::string fails_in;               // after this kernel the device is lost

  std::vector<std::string> calls;     // every function, in order
  std::vector<Launched> launched;     // kernels that ran, graph by graph
  std::map<std::string, int> shared;  // largest dynamic shared memory asked for, by kernel
  std::size_t allocated = 0, host_allocated = 0;
  int contexts = 0, modules = 0, graphs = 0, executables = 0, events = 0, streams = 0, pushed = 0;
  std::string last_map;                           // what was encoded
  std::set<const void*> captured;                 // streams that others capture
  std::map<const void*, unsigned long long> ids;  // of streams; 7 if not here
};

}  // namespace braze::cuda::fake

/// Exported by the fake driver.
extern "C" braze::cuda::fake::State* fake_state();
