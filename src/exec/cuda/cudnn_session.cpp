#include "exec/cuda/cudnn_session.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace braze::cuda {
namespace {

using Attribute = api::CudnnAttribute;
using Type = api::CudnnType;
using Kind = api::CudnnDescriptorType;
using Note = api::CudnnNumericalNote;

/// Configurations asked of one heuristic.
constexpr std::size_t kMostProposals = 32;
/// Calls in a recording that is timed, and how often it is: the least counts.
constexpr std::size_t kCalls = 4;
constexpr std::size_t kRounds = 3;

/// Indices in a problem's proposals, by cuDNN, GPU and problem.
struct Choices {
  std::mutex mutex;
  std::map<std::string, std::size_t> index;
};
Choices& choices() {
  static Choices all;
  return all;
}

/// Sums in fp32, products as exact as was asked for, the same bits every time.
bool keeps_precision(std::span<const Note> notes, const CudnnProblem& problem) {
  const bool wide = problem.x.dtype == DType::kFloat32;
  return std::ranges::none_of(notes, [&](Note note) {
    switch (note) {
      case Note::kTensorCore:
        return wide && !problem.tf32;
      case Note::kWinograd:
        return !wide;  // its transforms would be rounded to 16 bits
      case Note::kDownConvertInputs:
      case Note::kReducedPrecisionReduction:
      case Note::kFft:
      case Note::kNondeterministic:
      case Note::kWinogradTile6x6:
      case Note::kWinogradTile13x13:
        return true;
    }
    return false;
  });
}

struct Proposal {
  CudnnDescriptor config;
  bool compiled = false;  // when it is made ready
};

/// Appends what a heuristic proposes and the precision allows.
void propose(const Cudnn& cudnn, const CudnnDescriptor& graph, api::CudnnHeuristic mode,
             const CudnnProblem& problem, std::vector<Proposal>& proposals) {
  CudnnDescriptor heuristic(cudnn, Kind::kEngineHeuristic);
  heuristic.set(Attribute::kHeuristicOperationGraph, graph);
  heuristic.set(Attribute::kHeuristicMode, Type::kHeuristicMode, mode);
  heuristic.finalize();
  std::vector<CudnnDescriptor> configs;
  std::vector<api::CudnnDescriptor> handles;
  for (std::size_t i = 0; i < kMostProposals; ++i)
    handles.push_back(configs.emplace_back(cudnn, Kind::kEngineConfig).get());
  const auto count = static_cast<std::size_t>(
      heuristic.get(Attribute::kHeuristicResults, Type::kDescriptor, std::span(handles)));
  for (std::size_t i = 0; i < std::min(count, configs.size()); ++i) {
    const CudnnDescriptor engine(cudnn, Kind::kEngine);
    api::CudnnDescriptor handle = engine.get();
    configs[i].get(Attribute::kConfigEngine, Type::kDescriptor, std::span(&handle, 1));
    std::array<Note, 32> notes{};
    const auto noted = static_cast<std::size_t>(
        engine.get(Attribute::kEngineNumericalNote, Type::kNumericalNote, std::span<Note>(notes)));
    if (!keeps_precision(std::span(notes).first(std::min(noted, notes.size())), problem)) continue;
    std::array<api::CudnnBehaviorNote, 32> behavior{};
    const auto behaves =
        static_cast<std::size_t>(engine.get(Attribute::kEngineBehaviorNote, Type::kBehaviorNote,
                                            std::span<api::CudnnBehaviorNote>(behavior)));
    const auto known = std::span(behavior).first(std::min(behaves, behavior.size()));
    const bool compiled =
        std::ranges::find(known, api::CudnnBehaviorNote::kRuntimeCompilation) != known.end();
    proposals.push_back({std::move(configs[i]), compiled});
  }
}

std::size_t bytes_of(const CudnnTensor& tensor) {
  std::int64_t elements = 1;
  for (std::size_t axis = 0; axis < tensor.extents.size(); ++axis)
    elements += (tensor.extents[axis] - 1) * tensor.strides[axis];
  return static_cast<std::size_t>(elements) * size_of(tensor.dtype);
}

/// Memory to run a problem in, with whatever is in it.
struct Scratch {
  std::vector<Memory> memory;
  std::vector<void*> operands;

  Scratch(const CudnnProblem& problem, Gpu& gpu) {
    const auto add = [&](const CudnnTensor& tensor) {
      memory.push_back(gpu.allocate(bytes_of(tensor), "a trial of cuDNN's engines"));
      operands.push_back(memory.back().get());
    };
    for (const CudnnTensor* tensor : {&problem.x, &problem.w, &problem.y}) add(*tensor);
    for (const CudnnStep& step : problem.steps)
      if (step.operand) add(*step.operand);
  }
};

/// The least seconds of one call.
double time(const std::shared_ptr<const Call>& call, const Scratch& scratch, Gpu& gpu) {
  const Memory workspace = gpu.allocate(std::max<std::size_t>(call->workspace_bytes(), 1),
                                        "the workspace of a trial of cuDNN's engines");
  std::vector<Step> steps(kCalls);
  for (Step& step : steps) {
    step.name = "a trial of one of cuDNN's engines";
    step.call = std::make_unique<CallStep>(CallStep{call, scratch.operands, workspace.get()});
  }
  std::array<double, kRounds> seconds{};
  gpu.record(std::move(steps))->run_repeatedly(seconds, 1);
  return *std::ranges::min_element(seconds) / static_cast<double>(kCalls);
}

}  // namespace

/// An execution plan.
struct CudnnSession::Engine {
  std::shared_ptr<const CudnnGraph> graph;
  CudnnDescriptor plan;
  std::size_t workspace_bytes = 0;

  /// kUnsupported if the engine does not do the problem after all.
  Engine(const Cudnn& cudnn, api::CudnnHandle handle, std::shared_ptr<const CudnnGraph> of,
         const CudnnDescriptor& config)
      : graph(std::move(of)), plan(cudnn, Kind::kExecutionPlan) {
    plan.set(Attribute::kPlanHandle, Type::kHandle, handle);
    plan.set(Attribute::kPlanConfig, config);
    plan.finalize();
    std::int64_t bytes = 0;
    plan.get(Attribute::kPlanWorkspaceSize, Type::kInt64, std::span(&bytes, 1));
    workspace_bytes = static_cast<std::size_t>(bytes);
    if (workspace_bytes > kMostCudnnWorkspace)
      fail(ErrorCode::kUnsupported, "an engine wants {} bytes of workspace, of which there are {}",
           workspace_bytes, kMostCudnnWorkspace);
  }
};

/// An engine in its session, which outlives it.
class CudnnSession::ReadyCall final : public Call {
 public:
  ReadyCall(std::shared_ptr<CudnnSession> session, std::shared_ptr<const Engine> engine)
      : session_(std::move(session)), engine_(std::move(engine)) {}
  [[nodiscard]] std::size_t workspace_bytes() const override { return engine_->workspace_bytes; }
  void enqueue(std::span<void* const> operands, void* workspace, void* stream) const override {
    session_->enqueue(*engine_, operands, workspace, stream);
  }

 private:
  std::shared_ptr<CudnnSession> session_;
  std::shared_ptr<const Engine> engine_;
};

std::shared_ptr<CudnnSession> CudnnSession::open(std::shared_ptr<const Cudnn> cudnn, Host host) {
  const std::shared_ptr<void> current = host.enter();
  api::CudnnHandle handle = nullptr;
  const api::CudnnStatus status = cudnn->create(&handle);
  if (status != api::kCudnnSuccess)
    fail(ErrorCode::kDevice, "cuDNN {} {} does not start: {}", to_string(cudnn->version),
         cudnn->library->path().string(), cudnn->describe(status));
  return std::make_shared<CudnnSession>(std::move(cudnn), std::move(host), handle);
}

CudnnSession::CudnnSession(std::shared_ptr<const Cudnn> cudnn, Host host, api::CudnnHandle handle)
    : cudnn_(std::move(cudnn)), host_(std::move(host)), handle_(handle) {}

CudnnSession::~CudnnSession() {
  std::shared_ptr<void> current;
  try {
    current = host_.enter();
  } catch (...) {  // the device was lost: cuDNN says so of every call, and frees what it can
    current = nullptr;
  }
  prepared_.clear();
  cudnn_->destroy(handle_);
}

Prepared CudnnSession::prepare(const CudnnProblem& problem, Gpu& gpu) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<void> current = host_.enter();
  const std::string text = text_of(problem);
  auto found = prepared_.find(text);
  if (found == prepared_.end()) {
    std::pair<std::shared_ptr<const Engine>, std::string> result;
    try {
      result.first = search(problem, text, gpu);
    } catch (const Exception& exception) {
      if (exception.error().code != ErrorCode::kUnsupported) throw;
      result.second = fmt::format("cuDNN {} has no engine for it: {}", to_string(cudnn_->version),
                                  exception.what());
    }
    found = prepared_.emplace(text, std::move(result)).first;
  }
  const auto& [engine, why_not] = found->second;
  if (engine == nullptr) return {nullptr, why_not};
  return {std::make_shared<ReadyCall>(shared_from_this(), engine), ""};
}

std::shared_ptr<const CudnnSession::Engine> CudnnSession::search(const CudnnProblem& problem,
                                                                 const std::string& text,
                                                                 Gpu& gpu) {
  const auto graph = std::make_shared<const CudnnGraph>(make_graph(*cudnn_, handle_, problem));
  std::vector<Proposal> proposals;
  std::string reason = "no heuristic proposes one that keeps the precision asked for";
  for (const auto mode : {api::CudnnHeuristic::kA, api::CudnnHeuristic::kFallback}) {
    try {
      propose(*cudnn_, graph->graph(), mode, problem, proposals);
    } catch (const Exception& exception) {
      if (exception.error().code != ErrorCode::kUnsupported) throw;
      reason = exception.what();
    }
  }
  const auto make = [&](const Proposal& proposal) -> std::shared_ptr<const Engine> {
    try {
      return std::make_shared<const Engine>(*cudnn_, handle_, graph, proposal.config);
    } catch (const Exception& exception) {
      if (exception.error().code != ErrorCode::kUnsupported) throw;
      reason = exception.what();
      return nullptr;
    }
  };
  const Scratch scratch(problem, gpu);
  const auto trial = [&](const std::shared_ptr<const Engine>& engine) -> std::optional<double> {
    try {
      return time(std::make_shared<ReadyCall>(shared_from_this(), engine), scratch, gpu);
    } catch (const Exception& exception) {
      if (exception.error().code != ErrorCode::kDevice) throw;
      gpu.wait();  // throws if it is the device that failed
      reason = exception.what();
      return std::nullopt;
    }
  };

  const std::string key = fmt::format("{} {} {}", to_string(cudnn_->version), host_.name, text);
  const auto remembered = [&]() -> std::optional<std::size_t> {
    const std::lock_guard lock(choices().mutex);
    const auto found = choices().index.find(key);
    if (found == choices().index.end() || found->second >= proposals.size()) return std::nullopt;
    return found->second;
  }();
  if (remembered) {
    const std::shared_ptr<const Engine> engine = make(proposals[*remembered]);
    if (engine != nullptr && trial(engine)) return engine;  // it also loads what it launches
  }

  std::shared_ptr<const Engine> best;
  std::size_t index = 0;
  double least = 0;
  int tried = 0, compiled = 0;
  for (std::size_t i = 0; i < proposals.size() && tried < kMostCudnnConfigs; ++i) {
    if (proposals[i].compiled && compiled == kMostCompiledCudnnConfigs) continue;
    const std::shared_ptr<const Engine> engine = make(proposals[i]);
    const std::optional<double> seconds = engine == nullptr ? std::nullopt : trial(engine);
    if (!seconds) continue;
    ++tried;
    compiled += proposals[i].compiled ? 1 : 0;
    if (best != nullptr && *seconds >= least) continue;
    best = engine;
    index = i;
    least = *seconds;
  }
  if (best == nullptr) fail(ErrorCode::kUnsupported, "{}", reason);
  const std::lock_guard lock(choices().mutex);
  choices().index[key] = index;
  return best;
}

void CudnnSession::enqueue(const Engine& engine, std::span<void* const> operands, void* workspace,
                           void* stream) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<void> current = host_.enter();
  try {
    CudnnDescriptor pack(*cudnn_, Kind::kVariantPack);
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < operands.size(); ++i)
      ids.push_back(static_cast<std::int64_t>(i) + 1);
    pack.set(Attribute::kPackIds, ids);
    pack.set(Attribute::kPackPointers, Type::kVoidPointer, operands);
    pack.set(Attribute::kPackWorkspace, Type::kVoidPointer, workspace);
    pack.finalize();
    api::CudnnStatus status = cudnn_->set_stream(handle_, static_cast<api::Stream>(stream));
    if (status == api::kCudnnSuccess)
      status = cudnn_->execute(handle_, engine.plan.get(), pack.get());
    if (status != api::kCudnnSuccess) fail(ErrorCode::kUnsupported, "{}", cudnn_->describe(status));
  } catch (const Exception& exception) {
    fail(exception.error().code == ErrorCode::kUnsupported ? ErrorCode::kDevice
                                                           : exception.error().code,
         "cuDNN {} refuses: {}", to_string(cudnn_->version), exception.what());
  }
}

}  // namespace braze::cuda
