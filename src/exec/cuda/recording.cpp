// Steps recorded as one CUDA graph, by capturing the stream while they are enqueued.
#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>

#include "exec/cuda/capture_streams.hpp"
#include "exec/cuda/driver_gpu.hpp"

namespace braze::cuda {
namespace {

/// Runs before run_repeatedly takes times.
constexpr int kWarmUps = 10;
/// Programmatic dependent launch inside a graph: since sm_90, CUDA 12.3.
constexpr int kOverlapSm = 90;
constexpr Version kOverlapDriver = {12, 3};

/// Events that take times.
class Events {
 public:
  Events(const std::shared_ptr<const GpuContext>& context, std::size_t count) : context_(*context) {
    for (std::size_t i = 0; i < count; ++i)
      events_.push_back(std::make_unique<OwnedEvent>(context, 0));
  }
  api::Event operator[](std::size_t i) const { return events_[i]->get(); }
  /// Seconds from each event to the next.
  void read(std::span<double> seconds) const {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      float milliseconds = 0;
      context_.check(
          context_.driver().event_elapsed_time(&milliseconds, (*this)[i], (*this)[i + 1]),
          "reading events");
      seconds[i] = static_cast<double>(milliseconds) * 1e-3;
    }
  }

 private:
  const GpuContext& context_;
  std::vector<std::unique_ptr<OwnedEvent>> events_;
};

/// A host step with the pinned memory of its inputs and outputs.
struct PinnedStep {
  HostStep* step = nullptr;
  HostErrors* errors = nullptr;
  std::shared_ptr<std::byte> memory;
  std::vector<void*> inputs, outputs;

  /// What the stream calls. Nothing may be thrown out of it.
  static void call(void* argument) {
    const auto& self = *static_cast<PinnedStep*>(argument);
    if (self.errors->pending()) return;  // the inputs may be wrong
    try {
      self.step->run(self.inputs, self.outputs);
    } catch (...) {
      self.errors->set(std::current_exception());
    }
  }
};

class DriverRecording final : public Recording {
 public:
  DriverRecording(std::shared_ptr<const GpuContext> context,
                  std::shared_ptr<HostErrors> host_errors, std::vector<Step> steps)
      : context_(std::move(context)),
        host_errors_(std::move(host_errors)),
        steps_(std::move(steps)) {
    functions_.resize(steps_.size());
    pinned_.resize(steps_.size());
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].host != nullptr) {
        pinned_[i] = pin(*steps_[i].host);
        continue;
      }
      if (steps_[i].call != nullptr) continue;
      const Launch& launch = steps_[i].launch;
      const auto* module = dynamic_cast<const DriverModule*>(launch.module.get());
      ensure(launch.kernel != nullptr && module != nullptr, "a launch has a kernel and its module");
      functions_[i] = module->function(*launch.kernel);
    }
    if (!steps_.empty()) graph_ = capture(1);
  }
  DriverRecording(const DriverRecording&) = delete;
  DriverRecording& operator=(const DriverRecording&) = delete;
  ~DriverRecording() override {
    const GpuContext::Current current(*context_, std::nothrow);
    if (!current.active()) return;
    // Host steps use what is freed now.
    driver().stream_synchronize(context_->untouched_stream());
    if (graph_ != nullptr) driver().graph_exec_destroy(graph_);
  }

  void run() override { run_in_stream(context_->stream()); }
  void run_in(void* stream) override { run_in_stream(static_cast<api::Stream>(stream)); }

  void capture_in(void* stream) override {
    for (const Step& step : steps_) {
      if (step.host != nullptr)
        fail(ErrorCode::kUnsupported,
             "{} runs on the host, which a stream that is captured cannot wait for", step.name);
    }
    const GpuContext::Current current(*context_);
    bool after_kernel = false;  // which has waited for the one before, and so on
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      enqueue(i, static_cast<api::Stream>(stream), after_kernel);
      after_kernel = steps_[i].call == nullptr;
    }
  }

  void run_timed(std::span<double> seconds) override {
    ensure(seconds.size() == steps_.size(), "there is a time for each step");
    if (steps_.empty()) return;
    const GpuContext::Current current(*context_);
    if (!checked_) run_one_by_one();
    const Events events(context_, steps_.size() + 1);
    const OwnedGraph timed(capture_timed(events), {this});
    launch_graph(timed.get());
    finish();
    events.read(seconds);
  }

  void run_repeatedly(std::span<double> seconds, std::size_t runs) override {
    const GpuContext::Current current(*context_);
    const bool several = runs > 1 && graph_ != nullptr;
    const OwnedGraph repeated(several ? capture(runs) : nullptr, {this});
    const api::GraphExec graph = several ? repeated.get() : graph_;
    for (int i = 0; i < kWarmUps; ++i) launch_graph(graph);
    const Events events(context_, seconds.size() + 1);
    for (std::size_t i = 0; i <= seconds.size(); ++i) {
      context_->check(driver().event_record(events[i], context_->stream()), "recording an event");
      if (i < seconds.size()) launch_graph(graph);
    }
    finish();
    events.read(seconds);
    for (double& time : seconds) time /= static_cast<double>(runs);
  }

 private:
  struct DestroyGraph {
    const DriverRecording* recording;
    void operator()(api::GraphExec graph) const { recording->driver().graph_exec_destroy(graph); }
  };
  using OwnedGraph = std::unique_ptr<std::remove_pointer_t<api::GraphExec>, DestroyGraph>;

  [[nodiscard]] const Driver& driver() const { return context_->driver(); }

  void run_in_stream(api::Stream stream) const {
    const GpuContext::Current current(*context_);
    if (graph_ != nullptr)
      context_->check(driver().graph_launch(graph_, stream), "launching a graph");
  }

  void launch_graph(api::GraphExec graph) const {
    if (graph != nullptr)
      context_->check(driver().graph_launch(graph, context_->stream()), "launching a graph");
  }

  /// Waits after every step, so that an error names the one that it comes from.
  void run_one_by_one() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      enqueue(i, context_->stream(), false);
      context_->check(driver().stream_synchronize(context_->stream()), "running {}",
                      steps_[i].name);
      host_errors_->rethrow();
    }
    checked_ = true;
  }

  void finish() const {
    context_->check(driver().stream_synchronize(context_->stream()), "running kernels");
    host_errors_->rethrow();
  }

  /// One block of pinned memory, each copy aligned to a cache line.
  std::unique_ptr<PinnedStep> pin(HostStep& step) const {
    const auto aligned = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
    std::size_t total = 0;
    for (const auto* copies : {&step.inputs, &step.outputs})
      for (const HostStep::Copy& copy : *copies) total += aligned(copy.bytes);
    auto pinned = std::make_unique<PinnedStep>();
    pinned->step = &step;
    pinned->errors = host_errors_.get();
    pinned->memory = pin_memory(context_, total);
    std::byte* next = pinned->memory.get();
    const auto place = [&](const std::vector<HostStep::Copy>& copies, std::vector<void*>& memory) {
      for (const HostStep::Copy& copy : copies) {
        memory.push_back(next);
        next += aligned(copy.bytes);
      }
    };
    place(step.inputs, pinned->inputs);
    place(step.outputs, pinned->outputs);
    return pinned;
  }

  /// All steps, `runs` times one after the other, as a graph.
  api::GraphExec capture(std::size_t runs) const {
    const GpuContext::Current current(*context_);
    CaptureStreams streams(context_, steps_);
    std::vector<bool> after_kernel;
    return capture([&] {
      for (std::size_t run = 0; run < runs; ++run) capture_branches(streams, after_kernel);
    });
  }

  /// An event before each step and one at the end, no overlap and no branches.
  api::GraphExec capture_timed(const Events& events) const {
    return capture([&] {
      for (std::size_t i = 0; i < steps_.size(); ++i) {
        mark(events[i]);
        enqueue(i, context_->stream(), false);
      }
      mark(events[steps_.size()]);
    });
  }

  /// What `enqueue_all` enqueues, as a graph.
  api::GraphExec capture(const std::function<void()>& enqueue_all) const {
    const GpuContext::Current current(*context_);
    context_->check(driver().stream_begin_capture(context_->stream(), api::CaptureMode::kRelaxed),
                    "recording a graph");
    api::Graph graph = nullptr;
    try {
      enqueue_all();
    } catch (...) {
      driver().stream_end_capture(context_->stream(), &graph);
      if (graph != nullptr) driver().graph_destroy(graph);
      throw;
    }
    context_->check(driver().stream_end_capture(context_->stream(), &graph),
                    "ending the recording of a graph");
    api::GraphExec executable = nullptr;
    const api::Result result = driver().graph_instantiate(&executable, graph, 0);
    driver().graph_destroy(graph);
    context_->check(result, "making a graph of {} steps", steps_.size());
    const api::Result uploaded = driver().graph_upload(executable, context_->stream());
    if (uploaded != api::kSuccess) driver().graph_exec_destroy(executable);
    context_->check(uploaded, "uploading a graph of {} steps", steps_.size());
    return executable;
  }

  void mark(api::Event event) const {
    context_->check(
        driver().event_record_with_flags(event, context_->stream(), api::kEventRecordExternal),
        "recording an event");
  }

  /// A kernel overlaps the one before it in its stream if that is all it has to wait for:
  /// after_kernel[stream], of the run before this one as well.
  void capture_branches(CaptureStreams& streams, std::vector<bool>& after_kernel) const {
    streams.begin();
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if (step.stream >= after_kernel.size()) after_kernel.resize(step.stream + 1, false);
      const api::Stream stream = streams.enter(step);
      enqueue(i, stream, after_kernel[step.stream] && step.waits.empty());
      streams.leave(i, step);
      // What a library launches says nothing of when it may be overlapped.
      after_kernel[step.stream] = pinned_[i] == nullptr && step.call == nullptr;
    }
    streams.join();
    if (after_kernel.size() > 1) after_kernel.assign(after_kernel.size(), false);
  }

  void enqueue(std::size_t i, api::Stream stream, bool follows_kernel) const {
    if (pinned_[i] != nullptr) {
      enqueue_host(*pinned_[i], stream);
    } else if (steps_[i].call != nullptr) {
      enqueue_call(steps_[i], stream);
    } else {
      enqueue_launch(i, stream, follows_kernel);
    }
  }

  void enqueue_launch(std::size_t i, api::Stream stream, bool follows_kernel) const {
    const Launch& launch = steps_[i].launch;
    const Kernel& kernel = *launch.kernel;
    std::array<api::LaunchAttribute, 2> attributes{};
    api::LaunchConfig config = {
        kernel.grid.x,  kernel.grid.y,       kernel.grid.z, kernel.block.x,    kernel.block.y,
        kernel.block.z, kernel.shared_bytes, stream,        attributes.data(), 0};
    if (kernel.cluster > 1) {
      api::LaunchAttribute& attribute = attributes[config.attribute_count++];
      attribute.id = api::LaunchAttributeId::kClusterDimension;
      attribute.value.cluster = {kernel.cluster, 1, 1};
    }
    if (kernel.overlaps && follows_kernel && context_->facts().sm >= kOverlapSm &&
        driver().version >= kOverlapDriver) {
      api::LaunchAttribute& attribute = attributes[config.attribute_count++];
      attribute.id = api::LaunchAttributeId::kProgrammaticStreamSerialization;
      attribute.value.programmatic_stream_serialization = 1;
    }
    // Copied by the driver before it returns.
    void* block = const_cast<std::byte*>(launch.parameters.data());
    context_->check(driver().launch_kernel(&config, functions_[i], &block, nullptr),
                    "launching {} as {} with grid {}x{}x{}, block {}x{}x{}, cluster {} and {} "
                    "bytes of shared memory",
                    steps_[i].name, kernel.entry, kernel.grid.x, kernel.grid.y, kernel.grid.z,
                    kernel.block.x, kernel.block.y, kernel.block.z, kernel.cluster,
                    kernel.shared_bytes);
  }

  static void enqueue_call(const Step& step, api::Stream stream) {
    try {
      step.call->call->enqueue(step.call->operands, step.call->workspace, stream);
    } catch (const Exception& exception) {
      fail(exception.error().code, "running {}: {}", step.name, exception.what());
    }
  }

  void enqueue_host(PinnedStep& pinned, api::Stream stream) const {
    const HostStep& step = *pinned.step;
    for (std::size_t k = 0; k < step.inputs.size(); ++k) {
      const HostStep::Copy& copy = step.inputs[k];
      if (copy.bytes == 0) continue;
      context_->check(driver().memcpy_to_host(pinned.inputs[k],
                                              reinterpret_cast<api::DeviceAddress>(copy.device),
                                              copy.bytes, stream),
                      "recording a copy to the host");
    }
    context_->check(driver().launch_host_func(stream, &PinnedStep::call, &pinned),
                    "recording a host step");
    for (std::size_t k = 0; k < step.outputs.size(); ++k) {
      const HostStep::Copy& copy = step.outputs[k];
      if (copy.bytes == 0) continue;
      context_->check(driver().memcpy_to_device(reinterpret_cast<api::DeviceAddress>(copy.device),
                                                pinned.outputs[k], copy.bytes, stream),
                      "recording a copy from the host");
    }
  }

  std::shared_ptr<const GpuContext> context_;
  std::shared_ptr<HostErrors> host_errors_;
  std::vector<Step> steps_;
  std::vector<api::Function> functions_;             // of steps that launch
  std::vector<std::unique_ptr<PinnedStep>> pinned_;  // of steps on the host
  api::GraphExec graph_ = nullptr;                   // null if there are no steps
  bool checked_ = false;                             // every step has run and was waited for
};

}  // namespace

std::unique_ptr<Recording> record_steps(std::shared_ptr<const GpuContext> context,
                                        std::shared_ptr<HostErrors> host_errors,
                                        std::vector<Step> steps) {
  return std::make_unique<DriverRecording>(std::move(context), std::move(host_errors),
                                           std::move(steps));
}

}  // namespace braze::cuda
