// What tests tell the fake cuDNN, and what it tells them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace braze::cuda::fake {

/// An engine configuration that a heuristic proposes.
struct CudnnConfig {
  int mode = 3;  // the heuristic: 3 is A, 2 the fallback
  std::vector<int> notes = {}, behavior = {};
  long long workspace_bytes = 0;
  int plan_error = 0, run_error = 0;  // what finalising its plan and running it return
  int milliseconds = 0;               // that it takes to run
};

struct CudnnState {
  std::size_t version = 90801;
  std::vector<CudnnConfig> configs = {{}};
  std::map<std::string, int> errors;  // what a function returns from now on
  /// What an execution puts on its stream: done at once where this is empty.
  std::function<void(void* stream, std::function<void()> work)> enqueue;

  std::vector<std::string> graphs;  // that were finalised, in words
  std::vector<std::size_t> plans;   // the configurations that plans were made of
  std::vector<std::size_t> runs;    // the configurations that ran
  std::string last_error;
  int handles = 0, descriptors = 0;
};

}  // namespace braze::cuda::fake

/// Exported by the fake cuDNN.
extern "C" braze::cuda::fake::CudnnState* fake_cudnn_state();
