// A cuDNN that takes the descriptors Braze makes, holds them to the rules of the real one, and
// computes what they say in double precision, on memory of the host.
#include "support/fake_cudnn/fake_cudnn.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "support/fake_cudnn/graph.hpp"

using namespace braze::cuda::api;  // NOLINT(google-build-using-namespace)
using braze::cuda::fake::CudnnConfig;
using braze::cuda::fake::CudnnState;
using braze::cuda::fake::Descriptor;
using braze::cuda::fake::Refused;

namespace {

CudnnState state;
struct Handle {
  void* stream = nullptr;
};

/// Runs `body`; what it refuses is the last error.
template <class Body>
CudnnStatus guarded(const char* function, const Body& body) {
  if (const auto error = state.errors.find(function); error != state.errors.end()) {
    state.last_error = "as the test wants";
    return error->second;
  }
  try {
    return body();
  } catch (const Refused& refused) {
    state.last_error = refused.what();
    return refused.status;
  }
}

const CudnnConfig& config_of(const Descriptor& config) { return state.configs.at(config.index); }

void propose(const Descriptor& heuristic, std::int64_t asked, std::int64_t* count, void* elements) {
  const int mode = heuristic.one<int>(CudnnAttribute::kHeuristicMode);
  *count = 0;
  for (std::size_t i = 0; i < state.configs.size() && *count < asked; ++i) {
    if (state.configs[i].mode != mode) continue;
    auto* config = static_cast<Descriptor**>(elements)[(*count)++];
    config->need(CudnnDescriptorType::kEngineConfig);
    config->index = i;
    config->finalized = true;
    config->graph = heuristic.graph;
  }
}

template <class T>
void give(const std::vector<T>& from, std::int64_t asked, std::int64_t* count, void* elements) {
  *count = static_cast<std::int64_t>(from.size());
  const auto most = std::min(from.size(), static_cast<std::size_t>(asked));
  std::memcpy(elements, from.data(), most * sizeof(T));
}

void finalize(Descriptor& descriptor) {
  descriptor.check();
  if (descriptor.type == CudnnDescriptorType::kOperationGraph)
    state.graphs.push_back(braze::cuda::fake::text_of(*descriptor.graph));
  if (descriptor.type == CudnnDescriptorType::kExecutionPlan) {
    state.plans.push_back(descriptor.index);
    if (config_of(descriptor).plan_error != 0)
      throw Refused(config_of(descriptor).plan_error, "this engine does not do this problem");
  }
  descriptor.finalized = true;
}

}  // namespace

extern "C" {

CudnnState* fake_cudnn_state() { return &state; }

std::size_t cudnnGetVersion() { return state.version; }
const char* cudnnGetErrorString(CudnnStatus status) {
  return status / 1000 == 3 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_OTHER";
}
void cudnnGetLastErrorString(char* text, std::size_t bytes) {
  std::strncpy(text, state.last_error.c_str(), bytes);
}
CudnnStatus cudnnCreate(CudnnHandle* handle) {
  return guarded("cudnnCreate", [&] {
    ++state.handles;
    *handle = reinterpret_cast<CudnnHandle>(new Handle);
    return 0;
  });
}
CudnnStatus cudnnDestroy(CudnnHandle handle) {
  --state.handles;
  delete reinterpret_cast<Handle*>(handle);
  return 0;
}
CudnnStatus cudnnSetStream(CudnnHandle handle, Stream stream) {
  return guarded("cudnnSetStream", [&] {
    reinterpret_cast<Handle*>(handle)->stream = stream;
    return 0;
  });
}
CudnnStatus cudnnBackendCreateDescriptor(CudnnDescriptorType type, CudnnDescriptor* descriptor) {
  return guarded("cudnnBackendCreateDescriptor", [&] {
    ++state.descriptors;
    auto* made = new Descriptor;
    made->type = type;
    *descriptor = made;
    return 0;
  });
}
CudnnStatus cudnnBackendDestroyDescriptor(CudnnDescriptor descriptor) {
  --state.descriptors;
  delete static_cast<Descriptor*>(descriptor);
  return 0;
}
CudnnStatus cudnnBackendSetAttribute(CudnnDescriptor descriptor, CudnnAttribute attribute,
                                     CudnnType type, std::int64_t count, const void* elements) {
  return guarded("cudnnBackendSetAttribute", [&] {
    static_cast<Descriptor*>(descriptor)->set(attribute, type, count, elements);
    return 0;
  });
}
CudnnStatus cudnnBackendGetAttribute(CudnnDescriptor descriptor, CudnnAttribute attribute,
                                     CudnnType, std::int64_t asked, std::int64_t* count,
                                     void* elements) {
  return guarded("cudnnBackendGetAttribute", [&] {
    const auto& from = *static_cast<Descriptor*>(descriptor);
    switch (attribute) {
      case CudnnAttribute::kHeuristicResults:
        propose(from, asked, count, elements);
        return 0;
      case CudnnAttribute::kConfigEngine: {
        auto* engine = *static_cast<Descriptor**>(elements);
        engine->need(CudnnDescriptorType::kEngine);
        engine->index = from.index;
        *count = 1;
        return 0;
      }
      case CudnnAttribute::kEngineNumericalNote:
        give(config_of(from).notes, asked, count, elements);
        return 0;
      case CudnnAttribute::kEngineBehaviorNote:
        give(config_of(from).behavior, asked, count, elements);
        return 0;
      case CudnnAttribute::kPlanWorkspaceSize:
        give(std::vector<std::int64_t>{config_of(from).workspace_bytes}, asked, count, elements);
        return 0;
      default:
        throw Refused(2010, "no attribute that can be read");
    }
  });
}
CudnnStatus cudnnBackendFinalize(CudnnDescriptor descriptor) {
  return guarded("cudnnBackendFinalize", [&] {
    finalize(*static_cast<Descriptor*>(descriptor));
    return 0;
  });
}
CudnnStatus cudnnBackendExecute(CudnnHandle handle, CudnnDescriptor plan, CudnnDescriptor pack) {
  return guarded("cudnnBackendExecute", [&] {
    const auto& what = *static_cast<Descriptor*>(plan);
    what.need(CudnnDescriptorType::kExecutionPlan);
    const std::size_t config = what.index;
    if (state.configs.at(config).run_error != 0)
      throw Refused(state.configs[config].run_error, "this engine does not run");
    const auto run = braze::cuda::fake::execution(what.graph, *static_cast<Descriptor*>(pack),
                                                  config_of(what).workspace_bytes);
    const auto work = [run, config] {
      std::this_thread::sleep_for(std::chrono::milliseconds(state.configs.at(config).milliseconds));
      state.runs.push_back(config);
      run();
    };
    if (state.enqueue) {
      state.enqueue(reinterpret_cast<Handle*>(handle)->stream, work);
    } else {
      work();
    }
    return 0;
  });
}
}
