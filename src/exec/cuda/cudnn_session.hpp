// cuDNN on one GPU: problems made ready to run.
//
// Heuristics propose engine configurations, best first by their reckoning. Those that keep the
// asked-for precision and fit in the workspace are timed on the device, and the fastest is taken.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "exec/cuda/cudnn_graph.hpp"
#include "exec/cuda/gpu.hpp"

namespace braze::cuda {

/// Algorithms that take more gain little from it.
inline constexpr std::size_t kMostCudnnWorkspace = std::size_t{64} << 20;
/// Configurations that are timed for one problem, and how many of them may be such that cuDNN
/// compiles first, which takes it a large part of a second each.
inline constexpr int kMostCudnnConfigs = 8;
inline constexpr int kMostCompiledCudnnConfigs = 2;

class CudnnSession : public std::enable_shared_from_this<CudnnSession> {
 public:
  /// What a session needs of the GPU it is on.
  struct Host {
    /// Makes the GPU's context current on this thread for as long as what it returns lives.
    std::function<std::shared_ptr<void>()> enter;
    std::string name;  // what is found on one GPU holds for others of the same name
  };

  /// kDevice if cuDNN does not start.
  static std::shared_ptr<CudnnSession> open(std::shared_ptr<const Cudnn> cudnn, Host host);
  CudnnSession(std::shared_ptr<const Cudnn> cudnn, Host host, api::CudnnHandle handle);
  CudnnSession(const CudnnSession&) = delete;
  CudnnSession& operator=(const CudnnSession&) = delete;
  ~CudnnSession();

  /// The problem with the fastest engine, found by runs on `gpu`, which is the one the session is
  /// on; or why cuDNN has none. Equal problems are searched for once per process. Errors of the GPU
  /// are thrown.
  Prepared prepare(const CudnnProblem& problem, Gpu& gpu);

 private:
  struct Engine;
  class ReadyCall;

  std::shared_ptr<const Engine> search(const CudnnProblem& problem, const std::string& text,
                                       Gpu& gpu);
  void enqueue(const Engine& engine, std::span<void* const> operands, void* workspace,
               void* stream);

  std::shared_ptr<const Cudnn> cudnn_;
  Host host_;
  api::CudnnHandle handle_;
  std::recursive_mutex mutex_;  // a handle is one thread's at a time
  std::map<std::string, std::pair<std::shared_ptr<const Engine>, std::string>>
      prepared_;  // by problem: an engine, or why there is none
};

}  // namespace braze::cuda
