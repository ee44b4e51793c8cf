// A CUDA driver whose device memory is host memory and whose kernels do nothing. Graphs keep what
// was captured, each node with those before it, and do it when launched, of several nodes that may
// come next the one captured last; every event is a millisecond after the one before.
#include "exec_cuda/fake/driver.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

using namespace braze::cuda::api;  // NOLINT(google-build-using-namespace)
using braze::cuda::fake::Launched;
using braze::cuda::fake::State;

namespace {

State state;
float clock_ms = 0;

using Nodes = std::set<std::size_t>;

struct FakeGraph {
  struct Node {
    std::function<void()> work;
    Nodes after;
    std::string kernel;  // "" if it is none
  };
  std::vector<Node> nodes;
};
FakeGraph* capturing = nullptr;
Stream origin = nullptr;        // on which the capture began
std::map<Stream, Nodes> tails;  // of streams that are captured: what comes before the next node

struct FakeEvent {
  float time = -1;
  bool captured = false;
  Nodes tail;
};
std::map<void*, std::size_t> device_blocks, host_blocks;
struct FakeFunction {
  std::string name;
};

/// Notes the call; the error that the test wants of it.
int called(const char* function) {
  state.calls.emplace_back(function);
  const auto error = state.errors.find(function);
  return error == state.errors.end() ? 0 : error->second;
}

/// Does something now, or when the graph that the stream is captured for is launched.
void enqueue(Stream stream, std::function<void()> work, const std::string& kernel = "") {
  const auto tail = tails.find(stream);
  if (capturing == nullptr || tail == tails.end()) return work();
  capturing->nodes.push_back({std::move(work), tail->second, kernel});
  tail->second = {capturing->nodes.size() - 1};
}

template <class Handle>
Handle make(int& count) {
  ++count;
  return reinterpret_cast<Handle>(new char);
}
template <class Handle>
void drop(int& count, Handle handle) {
  --count;
  delete reinterpret_cast<char*>(handle);
}

}  // namespace

#define FAKE(name) \
  if (const int error = called(#name); error != 0) return error

extern "C" {

State* fake_state() { return &state; }
/// For those that cannot read a State: the calls of a function so far.
int fake_calls(const char* function) {
  return static_cast<int>(std::ranges::count(state.calls, function));
}

int cuInit(unsigned) {
  FAKE(cuInit);
  return 0;
}
int cuDriverGetVersion(int* version) {
  FAKE(cuDriverGetVersion);
  *version = state.version;
  return 0;
}
int cuGetErrorName(int error, const char** name) {
  *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "as the test wants";
  return 0;
}
int cuDeviceGetCount(int* count) {
  FAKE(cuDeviceGetCount);
  *count = state.devices;
  return 0;
}
int cuDeviceGet(DeviceId* device, int ordinal) {
  FAKE(cuDeviceGet);
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int bytes, DeviceId) {
  FAKE(cuDeviceGetName);
  std::strncpy(name, state.name.c_str(), static_cast<std::size_t>(bytes));
  return 0;
}
int cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceId) {
  FAKE(cuDeviceGetAttribute);
  switch (attribute) {
    case DeviceAttribute::kCapabilityMajor:
      *value = state.sm / 10;
      return 0;
    case DeviceAttribute::kCapabilityMinor:
      *value = state.sm % 10;
      return 0;
    case DeviceAttribute::kMultiprocessorCount:
      *value = 66;
      return 0;
    case DeviceAttribute::kMemoryClockKhz:
      *value = 1000000;
      return 0;
    case DeviceAttribute::kMemoryBusBits:
      *value = 4000;
      return 0;
    case DeviceAttribute::kL2Bytes:
      *value = 50 << 20;
      return 0;
    case DeviceAttribute::kSharedBytesOfBlock:
      *value = 227 << 10;
      return 0;
  }
  return 1;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, DeviceId) {
  FAKE(cuDeviceTotalMem_v2);
  *bytes = state.memory_bytes;
  return 0;
}
int cuDevicePrimaryCtxRetain(Context* context, DeviceId) {
  FAKE(cuDevicePrimaryCtxRetain);
  ++state.contexts;
  *context = reinterpret_cast<Context>(&state);
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(DeviceId) {
  --state.contexts;
  return 0;
}
int cuCtxPushCurrent_v2(Context) {
  FAKE(cuCtxPushCurrent_v2);
  ++state.pushed;
  return 0;
}
int cuCtxPopCurrent_v2(Context*) {
  --state.pushed;
  return 0;
}
int cuMemGetInfo_v2(std::size_t* unused, std::size_t* total) {
  *unused = state.memory_bytes - state.allocated;
  *total = state.memory_bytes;
  return 0;
}
int cuMemAlloc_v2(DeviceAddress* address, std::size_t bytes) {
  FAKE(cuMemAlloc_v2);
  if (bytes == 0) return 1;
  if (bytes > state.memory_bytes - state.allocated) return 2;
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  device_blocks[memory] = bytes;
  state.allocated += bytes;
  *address = reinterpret_cast<DeviceAddress>(memory);
  return 0;
}
int cuMemFree_v2(DeviceAddress address) {
  void* memory = reinterpret_cast<void*>(address);
  state.allocated -= device_blocks.at(memory);
  device_blocks.erase(memory);
  std::free(memory);
  return 0;
}
int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  FAKE(cuMemHostAlloc);
  *memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  host_blocks[*memory] = bytes;
  state.host_allocated += bytes;
  return 0;
}
int cuMemFreeHost(void* memory) {
  state.host_allocated -= host_blocks.at(memory);
  host_blocks.erase(memory);
  std::free(memory);
  return 0;
}
int cuMemcpyHtoDAsync_v2(DeviceAddress to, const void* from, std::size_t bytes, Stream stream) {
  FAKE(cuMemcpyHtoDAsync_v2);
  enqueue(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, DeviceAddress from, std::size_t bytes, Stream stream) {
  FAKE(cuMemcpyDtoHAsync_v2);
  enqueue(stream, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  return 0;
}
int cuMemcpyDtoDAsync_v2(DeviceAddress to, DeviceAddress from, std::size_t bytes, Stream stream) {
  FAKE(cuMemcpyDtoDAsync_v2);
  enqueue(stream, [=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return 0;
}
int cuStreamCreate(Stream* stream, unsigned) {
  FAKE(cuStreamCreate);
  *stream = make<Stream>(state.streams);
  return 0;
}
int cuStreamDestroy_v2(Stream stream) {
  drop(state.streams, stream);
  return 0;
}
int cuStreamSynchronize(Stream) {
  FAKE(cuStreamSynchronize);
  for (const Launched& launched : state.launched)
    if (launched.kernel == state.fails_in) return 700;
  return 0;
}
int cuStreamBeginCapture_v2(Stream stream, CaptureMode) {
  FAKE(cuStreamBeginCapture_v2);
  capturing = new FakeGraph;
  origin = stream;
  tails = {{stream, {}}};
  return 0;
}
int cuStreamEndCapture(Stream stream, Graph* graph) {
  FAKE(cuStreamEndCapture);
  if (stream != origin) return 905;
  const Nodes joined = tails.at(origin);
  tails.clear();
  FakeGraph* whole = std::exchange(capturing, nullptr);
  Nodes open;  // nodes that nothing comes after
  for (std::size_t i = 0; i < whole->nodes.size(); ++i) open.insert(i);
  for (const FakeGraph::Node& node : whole->nodes)
    for (const std::size_t before : node.after) open.erase(before);
  for (const std::size_t node : open) {
    if (joined.contains(node)) continue;
    delete whole;
    return 904;  // CUDA_ERROR_STREAM_CAPTURE_UNJOINED
  }
  ++state.graphs;
  *graph = reinterpret_cast<Graph>(whole);
  return 0;
}
int cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  FAKE(cuStreamWaitEvent);
  const auto* fake = reinterpret_cast<FakeEvent*>(event);
  if (!fake->captured) return 0;
  if (capturing == nullptr) return 907;
  tails[stream].insert(fake->tail.begin(), fake->tail.end());
  return 0;
}
int cuStreamIsCapturing(Stream stream, CaptureStatus* status) {
  FAKE(cuStreamIsCapturing);
  *status = state.captured.contains(stream) ? CaptureStatus::kActive : CaptureStatus::kNone;
  return 0;
}
int cuStreamGetId(Stream stream, unsigned long long* id) {
  FAKE(cuStreamGetId);
  const auto found = state.ids.find(stream);
  *id = found == state.ids.end() ? 7 : found->second;
  return 0;
}
int cuModuleLoadDataEx(Module* module, const void* image, unsigned, JitOption*, void** values) {
  FAKE(cuModuleLoadDataEx);
  if (std::strcmp(static_cast<const char*>(image), "broken") == 0) {
    std::strcpy(static_cast<char*>(values[0]), "ptxas says no");
    return 200;
  }
  *module = make<Module>(state.modules);
  return 0;
}
int cuModuleUnload(Module module) {
  drop(state.modules, module);
  return 0;
}
int cuModuleGetFunction(Function* function, Module, const char* name) {
  FAKE(cuModuleGetFunction);
  if (std::strcmp(name, "absent") == 0) return 500;
  static std::map<std::string, FakeFunction> functions;
  *function =
      reinterpret_cast<Function>(&functions.try_emplace(name, FakeFunction{name}).first->second);
  return 0;
}
int cuFuncSetAttribute(Function function, FunctionAttribute attribute, int value) {
  FAKE(cuFuncSetAttribute);
  if (attribute == FunctionAttribute::kMaxDynamicSharedBytes)
    state.shared[reinterpret_cast<FakeFunction*>(function)->name] = value;
  return 0;
}
int cuLaunchKernelEx(const LaunchConfig* config, Function function, void** parameters, void**) {
  FAKE(cuLaunchKernelEx);
  Launched launched{reinterpret_cast<FakeFunction*>(function)->name, *config, 1, false, {}, {}};
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    if (attribute.id == LaunchAttributeId::kClusterDimension)
      launched.cluster = attribute.value.cluster.x;
    if (attribute.id == LaunchAttributeId::kProgrammaticStreamSerialization)
      launched.overlaps = attribute.value.programmatic_stream_serialization == 1;
  }
  const auto* block = static_cast<const std::byte*>(parameters[0]);
  launched.parameters.assign(block, block + 8);
  const auto tail = tails.find(config->stream);
  if (capturing != nullptr && tail != tails.end()) {
    for (const std::size_t node : tail->second)
      launched.after.insert(capturing->nodes[node].kernel);
  }
  enqueue(config->stream, [launched] { state.launched.push_back(launched); }, launched.kernel);
  return 0;
}
int cuLaunchHostFunc(Stream stream, HostFunction function, void* argument) {
  FAKE(cuLaunchHostFunc);
  enqueue(stream, [=] { function(argument); });
  return 0;
}
int cuGraphInstantiateWithFlags(GraphExec* executable, Graph graph, unsigned long long) {
  FAKE(cuGraphInstantiateWithFlags);
  ++state.executables;
  *executable = reinterpret_cast<GraphExec>(new FakeGraph(*reinterpret_cast<FakeGraph*>(graph)));
  return 0;
}
int cuGraphUpload(GraphExec, Stream) {
  FAKE(cuGraphUpload);
  return 0;
}
int cuGraphLaunch(GraphExec executable, Stream stream) {
  FAKE(cuGraphLaunch);
  if (state.captured.contains(stream)) return 900;  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
  const auto& nodes = reinterpret_cast<FakeGraph*>(executable)->nodes;
  Nodes done;
  while (done.size() < nodes.size()) {
    std::size_t next = nodes.size();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!done.contains(i) &&
          std::includes(done.begin(), done.end(), nodes[i].after.begin(), nodes[i].after.end()))
        next = i;
    }
    if (next == nodes.size()) return 999;
    nodes[next].work();
    done.insert(next);
  }
  return 0;
}
int cuGraphExecDestroy(GraphExec executable) {
  --state.executables;
  delete reinterpret_cast<FakeGraph*>(executable);
  return 0;
}
int cuGraphDestroy(Graph graph) {
  --state.graphs;
  delete reinterpret_cast<FakeGraph*>(graph);
  return 0;
}
int cuEventCreate(Event* event, unsigned) {
  FAKE(cuEventCreate);
  ++state.events;
  *event = reinterpret_cast<Event>(new FakeEvent);
  return 0;
}
int cuEventRecord(Event event, Stream stream) {
  FAKE(cuEventRecord);
  auto* fake = reinterpret_cast<FakeEvent*>(event);
  const auto tail = tails.find(stream);
  fake->captured = capturing != nullptr && tail != tails.end();
  if (fake->captured) {
    fake->tail = tail->second;
  } else {
    fake->time = ++clock_ms;
  }
  return 0;
}
int cuEventRecordWithFlags(Event event, Stream stream, unsigned flags) {
  FAKE(cuEventRecordWithFlags);
  if (capturing == nullptr || flags != kEventRecordExternal) return 1;
  enqueue(stream, [=] { reinterpret_cast<FakeEvent*>(event)->time = ++clock_ms; });
  return 0;
}
int cuEventSynchronize(Event event) {
  FAKE(cuEventSynchronize);
  return reinterpret_cast<FakeEvent*>(event)->time < 0 ? 600 : 0;
}
int cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  FAKE(cuEventElapsedTime);
  const float begin = reinterpret_cast<FakeEvent*>(from)->time;
  const float end = reinterpret_cast<FakeEvent*>(to)->time;
  if (begin < 0 || end < 0) return 600;
  *milliseconds = end - begin;
  return 0;
}
int cuEventDestroy_v2(Event event) {
  --state.events;
  delete reinterpret_cast<FakeEvent*>(event);
  return 0;
}
int cuTensorMapEncodeTiled(TensorMap* map, MapType type, std::uint32_t rank, void* address,
                           const std::uint64_t* extents, const std::uint64_t*,
                           const std::uint32_t* box, const std::uint32_t*, MapInterleave,
                           MapSwizzle swizzle, MapPromotion, MapFill) {
  FAKE(cuTensorMapEncodeTiled);
  map->opaque[0] = reinterpret_cast<std::uint64_t>(address);
  state.last_map = "tiled type " + std::to_string(static_cast<int>(type)) + " rank " +
                   std::to_string(rank) + " extent " + std::to_string(extents[0]) + " box " +
                   std::to_string(box[0]) + " swizzle " + std::to_string(static_cast<int>(swizzle));
  return 0;
}
int cuTensorMapEncodeIm2col(TensorMap* map, MapType type, std::uint32_t rank, void* address,
                            const std::uint64_t*, const std::uint64_t*, const int* lower,
                            const int* upper, std::uint32_t channels, std::uint32_t pixels,
                            const std::uint32_t*, MapInterleave, MapSwizzle, MapPromotion,
                            MapFill) {
  FAKE(cuTensorMapEncodeIm2col);
  map->opaque[0] = reinterpret_cast<std::uint64_t>(address);
  state.last_map = "im2col type " + std::to_string(static_cast<int>(type)) + " rank " +
                   std::to_string(rank) + " corners " + std::to_string(lower[0]) + " " +
                   std::to_string(upper[0]) + " channels " + std::to_string(channels) + " pixels " +
                   std::to_string(pixels);
  return 0;
}
}
