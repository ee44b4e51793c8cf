#include "support/simt/emulated_gpu.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "support/simt/machine.hpp"
#include "support/simt/tensor_map.hpp"

namespace braze::test {

namespace {

constexpr std::size_t kAlignment = 256;
/// Larger allocations are not filled.
constexpr std::size_t kSparse = std::size_t{1} << 30;

struct Allocation {
  std::byte *mapped = nullptr, *begin = nullptr;
  std::size_t mapped_bytes = 0, bytes = 0;
  std::string what;
};

class EmulatedModule : public cuda::Module {
 public:
  EmulatedModule(const std::string& image, std::string name) : name_(std::move(name)) {
    library_ = ::dlopen(image.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) fail(ErrorCode::kInternal, "{}: {}", name_, ::dlerror());
    table_ = static_cast<const simt::ModuleTable*>(::dlsym(library_, "braze_simt_module"));
    if (table_ == nullptr) fail(ErrorCode::kInternal, "{}: no image of EmulatedCompiler", name_);
    simt::bind(*table_);
  }
  EmulatedModule(const EmulatedModule&) = delete;
  EmulatedModule& operator=(const EmulatedModule&) = delete;
  ~EmulatedModule() override { ::dlclose(library_); }

  [[nodiscard]] const simt::ModuleTable& table() const { return *table_; }
  [[nodiscard]] const simt::Entry& entry(const std::string& name) const {
    for (unsigned i = 0; i < table_->count; ++i)
      if (name == table_->entries[i].name) return table_->entries[i];
    fail(ErrorCode::kInternal, "{}: the source has no kernel '{}'", name_, name);
  }

 private:
  std::string name_;
  void* library_ = nullptr;
  const simt::ModuleTable* table_ = nullptr;
};

simt::Index index_of(const cuda::Dim3& dim) { return {dim.x, dim.y, dim.z}; }

}  // namespace

/// Outlives the GPU while memory of it is held.
struct EmulatedGpu::State {
  std::map<const std::byte*, Allocation> allocations;  // by begin
  struct Work {
    std::function<void()> run;
    bool is_release = false;  // is done after errors too
  };
  std::deque<Work> queue;
  std::size_t used = 0, capacity = ~std::size_t{0}, launches = 0;
  std::uint64_t seed = 1;
  bool open = true;
  std::string error;  // sticky, like that of a CUDA context

  [[nodiscard]] const Allocation& holding(const void* address, std::size_t bytes) const {
    const auto* begin = static_cast<const std::byte*>(address);
    auto after = allocations.upper_bound(begin);
    if (after != allocations.begin()) {
      const Allocation& allocation = std::prev(after)->second;
      if (begin + bytes <= allocation.begin + allocation.bytes) return allocation;
    }
    fail(ErrorCode::kDevice, "a copy of {} bytes at {}, which is not device memory", bytes,
         address);
  }

  /// The bytes between an allocation and its guard pages.
  static std::string check(const Allocation& a) {
    const auto wrong = [](std::byte x) { return x != std::byte{0xff}; };
    if (std::any_of(a.mapped, a.begin, wrong))
      return fmt::format("a kernel wrote before the memory of {}", a.what);
    if (std::any_of(a.begin + a.bytes, a.mapped + a.mapped_bytes, wrong))
      return fmt::format("a kernel wrote behind the {} bytes of {}", a.bytes, a.what);
    return {};
  }

  void release(const std::byte* begin) {
    const auto found = allocations.find(begin);
    const Allocation& a = found->second;
    if (error.empty()) error = check(a);
    used -= a.bytes;
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    ::munmap(a.mapped - page, a.mapped_bytes + 2 * page);
    allocations.erase(found);
  }

  void launch(const cuda::Launch& launch) {
    const cuda::Kernel& kernel = *launch.kernel;
    const auto& module = static_cast<const EmulatedModule&>(*launch.module);
    const simt::Entry& entry = module.entry(kernel.entry);
    if (entry.parameter_bytes != launch.parameters.size())
      fail(ErrorCode::kInternal, "kernel {} takes {} bytes of parameters, and is given {}",
           kernel.entry, entry.parameter_bytes, launch.parameters.size());
    if (launch.parameters.size() > 4096)
      fail(ErrorCode::kInternal, "kernel {}: {} bytes of parameters, of which CUDA takes 4096",
           kernel.entry, launch.parameters.size());
    // As aligned as any member may be.
    alignas(128) std::byte parameters[4096];
    std::memcpy(parameters, launch.parameters.data(), launch.parameters.size());
    simt::GridLaunch grid;
    grid.entry = &entry;
    grid.module = &module.table();
    grid.parameters = parameters;
    grid.grid = index_of(kernel.grid);
    grid.block = index_of(kernel.block);
    grid.shared_bytes = kernel.shared_bytes;
    grid.cluster = kernel.cluster;
    grid.must_wait = kernel.overlaps;
    ++launches;
    std::string wrong = simt::run(grid, seed++);
    for (auto i = allocations.begin(); i != allocations.end() && wrong.empty(); ++i)
      if (wrong = check(i->second); !wrong.empty())
        wrong = fmt::format("kernel {}: {}", kernel.entry, wrong);
    if (!wrong.empty()) fail(ErrorCode::kDevice, "{}", wrong);
  }

  static void run_host(const cuda::HostStep& step) {
    std::vector<std::vector<std::byte>> inputs, outputs;
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const auto& copy : step.inputs) {
      const auto* begin = static_cast<const std::byte*>(copy.device);
      inputs.emplace_back(begin, begin + copy.bytes);
    }
    for (const auto& copy : step.outputs) outputs.emplace_back(copy.bytes, std::byte{0xff});
    for (const auto& input : inputs) from.push_back(input.data());
    for (auto& output : outputs) to.push_back(output.data());
    step.run(from, to);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      std::memcpy(const_cast<void*>(step.outputs[i].device), outputs[i].data(), outputs[i].size());
  }

  /// What a library refuses, it refuses while a graph is recorded: the device is none the worse.
  struct CallRefused {
    Error error;
  };
  static void run_call(const cuda::Step& step) {
    try {
      step.call->call->enqueue(step.call->operands, step.call->workspace, nullptr);
    } catch (const Exception& exception) {
      Error error = exception.error();
      error.message = fmt::format("running {}: {}", step.name, error.message);
      throw CallRefused{error};
    }
  }

  void run(const cuda::Step& step) {
    if (step.launch.kernel != nullptr)
      launch(step.launch);
    else if (step.call != nullptr)
      run_call(step);
    else
      run_host(*step.host);
  }

  /// All that was enqueued, in order. After an error of the device nothing runs any more; errors of
  /// host steps leave it usable.
  void flush() {
    while (!queue.empty()) {
      const Work work = std::move(queue.front());
      queue.pop_front();
      try {
        if (error.empty() || work.is_release) work.run();
      } catch (const CallRefused& refused) {
        drop();
        fail(refused.error.code, "{}", refused.error.message);
      } catch (const Exception& exception) {
        if (exception.error().code != ErrorCode::kDevice) {
          drop();
          throw;
        }
        error = exception.error().message;
      }
    }
    if (!error.empty()) fail(ErrorCode::kDevice, "{}", error);
  }

  /// Notes what was done with somebody else's stream.
  void note(const char* what, const void* stream) {
    streams.push_back(fmt::format("{} {}", what, reinterpret_cast<std::uintptr_t>(stream)));
  }
  std::vector<std::string> streams;

  /// Does nothing of what was enqueued but releases.
  void drop() {
    for (; !queue.empty(); queue.pop_front())
      if (queue.front().is_release) queue.front().run();
  }
};

namespace {

class EmulatedRecording : public cuda::Recording {
 public:
  EmulatedRecording(std::shared_ptr<EmulatedGpu::State> state, std::vector<cuda::Step> steps)
      : state_(std::move(state)),
        steps_(std::make_shared<std::vector<cuda::Step>>(std::move(steps))) {}

  /// In any order that the streams and what steps wait for allow.
  void run() override {
    state_->queue.push_back({[state = state_.get(), steps = steps_] {
      std::minstd_rand random(static_cast<unsigned>(state->seed + 1));
      std::vector<bool> done(steps->size(), false);
      for (std::size_t left = steps->size(); left > 0; --left) {
        std::vector<std::size_t> ready;
        std::set<std::size_t> begun;  // streams with a step that is not done
        for (std::size_t i = 0; i < steps->size(); ++i) {
          const cuda::Step& step = (*steps)[i];
          if (done[i] || !begun.insert(step.stream).second) continue;
          if (std::all_of(step.waits.begin(), step.waits.end(),
                          [&](std::size_t other) { return other < i && done[other]; }))
            ready.push_back(i);
        }
        if (ready.empty()) fail(ErrorCode::kDevice, "the steps wait for each other");
        const std::size_t next = ready[random() % ready.size()];
        state->run((*steps)[next]);
        done[next] = true;
      }
    }});
  }
  void run_in(void* stream) override {
    state_->note("run in", stream);
    run();
  }
  void capture_in(void* stream) override {
    state_->note("capture in", stream);
    run();
  }
  void run_timed(std::span<double> seconds) override {
    state_->flush();
    for (std::size_t i = 0; i < steps_->size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      state_->queue.push_back(
          {[state = state_.get(), steps = steps_, i] { state->run((*steps)[i]); }});
      state_->flush();
      seconds[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
  }
  void run_repeatedly(std::span<double> seconds, std::size_t runs) override {
    run();
    state_->flush();
    for (double& time : seconds) {
      const auto begin = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < runs; ++i) run();
      state_->flush();
      time = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
             static_cast<double>(runs);
    }
  }

 private:
  std::shared_ptr<EmulatedGpu::State> state_;
  std::shared_ptr<std::vector<cuda::Step>> steps_;
};

}  // namespace

namespace {

class EmulatedMark : public cuda::Mark {
 public:
  explicit EmulatedMark(std::shared_ptr<EmulatedGpu::State> state) : state_(std::move(state)) {}
  void set() override {}
  void wait() override { state_->flush(); }

 private:
  std::shared_ptr<EmulatedGpu::State> state_;
};

}  // namespace

std::unique_ptr<cuda::Mark> EmulatedGpu::make_mark() {
  return std::make_unique<EmulatedMark>(state_);
}

EmulatedGpu::EmulatedGpu(int sm) : device_(cuda_device(sm)), state_(std::make_shared<State>()) {
  if (const char* seed = std::getenv("BRAZE_SIMT_SEED"))
    state_->seed = std::strtoull(seed, nullptr, 10);
}

EmulatedGpu::~EmulatedGpu() {
  state_->drop();
  state_->open = false;
}

cuda::Memory EmulatedGpu::allocate(std::size_t bytes, const std::string& what) {
  State& state = *state_;
  if (bytes > state.capacity - std::min(state.used, state.capacity))
    fail(ErrorCode::kOutOfMemory, "the emulated GPU has no {} bytes for {}", bytes, what);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t padded =
      (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t inside = (padded + page - 1) / page * page;
  const int how = MAP_PRIVATE | MAP_ANONYMOUS | (inside > kSparse ? MAP_NORESERVE : 0);
  void* all = ::mmap(nullptr, inside + 2 * page, PROT_NONE, how, -1, 0);
  if (all == MAP_FAILED) fail(ErrorCode::kOutOfMemory, "no {} bytes for {}", bytes, what);
  Allocation a;
  a.mapped = static_cast<std::byte*>(all) + page;
  a.mapped_bytes = inside;
  a.begin = a.mapped + inside - padded;
  a.bytes = bytes;
  a.what = what;
  ::mprotect(a.mapped, inside, PROT_READ | PROT_WRITE);
  if (inside <= kSparse) {
    std::memset(a.mapped, 0xff, inside);
  } else {  // zeros, which take no memory until they are touched
    std::memset(a.mapped, 0xff, static_cast<std::size_t>(a.begin - a.mapped));
    std::memset(a.begin + bytes, 0xff, padded - bytes);
  }
  std::byte* begin = a.begin;
  state.used += bytes;
  state.allocations.emplace(begin, std::move(a));
  return {begin, [state = state_](std::byte* address) {
            if (state->open)  // after the work that may still use it
              state->queue.push_back({[s = state.get(), address] { s->release(address); }, true});
            else
              state->release(address);
          }};
}

std::shared_ptr<std::byte> EmulatedGpu::allocate_host(std::size_t bytes) {
  return {new std::byte[std::max<std::size_t>(bytes, 1)], std::default_delete<std::byte[]>()};
}

void EmulatedGpu::copy_in(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  (void)state_->holding(device, bytes);
  state_->queue.push_back({[=] { std::memcpy(device, host, bytes); }});
}

void EmulatedGpu::copy_out(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return;
  (void)state_->holding(device, bytes);
  state_->queue.push_back({[=] { std::memcpy(host, device, bytes); }});
}

void EmulatedGpu::copy_in_stream(void* stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  state_->note("copy in", stream);
  ++copies_;
  (void)state_->holding(to, bytes);
  (void)state_->holding(from, bytes);
  state_->queue.push_back({[=] { std::memcpy(to, from, bytes); }});
}

void EmulatedGpu::wait_for(void* stream) { state_->note("wait for", stream); }

void EmulatedGpu::hold(void* stream) { state_->note("hold", stream); }

const std::vector<std::string>& EmulatedGpu::streams() const { return state_->streams; }

void EmulatedGpu::wait() { state_->flush(); }

std::shared_ptr<const cuda::Module> EmulatedGpu::load(const std::string& image,
                                                      const std::string& name) {
  return std::make_shared<EmulatedModule>(image, name);
}

std::array<std::byte, 128> EmulatedGpu::encode(const cuda::TensorMap& map, void* address) {
  return simt::encode(map, address);
}

void EmulatedGpu::set_cudnn(std::shared_ptr<const cuda::Cudnn> cudnn) {
  cudnn_ = cuda::CudnnSession::open(std::move(cudnn),
                                    {[] { return std::shared_ptr<void>(); }, "emulated GPU"});
}

cuda::Prepared EmulatedGpu::prepare(const cuda::CudnnProblem& problem) {
  if (cudnn_ == nullptr) fail(ErrorCode::kDevice, "the emulated GPU has no cuDNN");
  return cudnn_->prepare(problem, *this);
}

std::unique_ptr<cuda::Recording> EmulatedGpu::record(std::vector<cuda::Step> steps) {
  return std::make_unique<EmulatedRecording>(state_, std::move(steps));
}

void EmulatedGpu::set_seed(std::uint64_t seed) { state_->seed = seed; }
void EmulatedGpu::set_capacity(std::size_t bytes) { state_->capacity = bytes; }
std::size_t EmulatedGpu::launches() const { return state_->launches; }

std::vector<std::vector<std::vector<std::byte>>> run_kernel(
    const cuda::Kernel& kernel, std::span<const std::vector<std::byte>> inputs,
    std::span<const std::size_t> output_bytes, int sm, int orders) {
  EmulatedCompiler compiler(sm);
  EmulatedGpu gpu(sm);
  const auto module =
      gpu.load(compiler.compile(std::span(&kernel.source, 1)).front(), kernel.entry);
  std::vector<std::vector<std::vector<std::byte>>> results;
  for (int order = 0; order < orders; ++order) {
    std::vector<cuda::Memory> in, out, constants;
    const auto place = [&](const std::vector<std::byte>& bytes, std::string what) {
      cuda::Memory memory = gpu.allocate(bytes.size(), what);
      gpu.copy_in(memory.get(), bytes.data(), bytes.size());
      return memory;
    };
    for (std::size_t i = 0; i < inputs.size(); ++i)
      in.push_back(place(inputs[i], fmt::format("input {}", i)));
    for (std::size_t i = 0; i < kernel.constants.size(); ++i)
      constants.push_back(place(kernel.constants[i], fmt::format("constant {}", i)));
    for (std::size_t i = 0; i < output_bytes.size(); ++i)
      out.push_back(gpu.allocate(output_bytes[i], fmt::format("output {}", i)));
    const cuda::Memory workspace = gpu.allocate(kernel.workspace_bytes, "the workspace");

    const auto resolve = [&](const cuda::Address& address) -> std::byte* {
      const auto i = static_cast<std::size_t>(address.index);
      switch (address.of) {
        case cuda::Address::Of::kNull:
          return nullptr;
        case cuda::Address::Of::kInput:
          return in.at(i).get() + address.offset;
        case cuda::Address::Of::kOutput:
          return out.at(i).get() + address.offset;
        case cuda::Address::Of::kConstant:
          return constants.at(i).get() + address.offset;
        case cuda::Address::Of::kWorkspace:
          return workspace.get() + address.offset;
      }
      return nullptr;
    };
    std::vector<cuda::Step> steps(1);
    cuda::Launch& launch = steps[0].launch;
    launch.kernel = &kernel;
    launch.module = module;
    launch.parameters = kernel.parameters;
    for (const cuda::Pointer& pointer : kernel.pointers) {
      std::byte* const value = resolve(pointer.address);
      std::memcpy(launch.parameters.data() + pointer.at, &value, sizeof value);
    }
    for (const cuda::TensorMap& map : kernel.maps) {
      const auto bytes = gpu.encode(map, resolve(map.address));
      std::memcpy(launch.parameters.data() + map.at, bytes.data(), bytes.size());
    }
    const auto recording = gpu.record(std::move(steps));
    recording->run();
    auto& result = results.emplace_back();
    for (const std::size_t bytes : output_bytes) result.emplace_back(bytes);
    for (std::size_t i = 0; i < out.size(); ++i)
      gpu.copy_out(result[i].data(), out[i].get(), result[i].size());
    gpu.wait();
  }
  return results;
}

}  // namespace braze::test
