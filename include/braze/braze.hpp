// Braze: compile a convolutional network, run it, and see what was fused, what was not, and why.
//
//   auto model = braze::compile("net.onnx", {});
//   if (!model) return report(model.error());
//   auto outputs = model->run({{image}});
//   for (const braze::KernelSummary& kernel : model->plan().kernels) ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "braze/error.hpp"
#include "braze/export.hpp"
#include "braze/tensor.hpp"

namespace braze {

enum class Precision : std::uint8_t { kFp32, kTf32, kFp16, kBf16 };
enum class Fusion : std::uint8_t { kOff, kEpilogue, kFull };
enum class Backend : std::uint8_t { kAuto, kBraze, kCudnn };

struct Options {
  std::string device =
      "cpu";  ///< cpu, cuda, cuda:N, or cuda:sm_XX (plans for a GPU that is not here)
  Precision precision = Precision::kFp32;
  Fusion fusion = Fusion::kFull;
  Backend backend = Backend::kAuto;
  bool nhwc_io = false;  ///< inputs and outputs of rank 3 and up are [N, spatial..., C]
  bool compute_dtype_io =
      false;  ///< inputs and outputs have the compute type instead of the model's
  std::map<std::string, std::int64_t>
      dims;  ///< symbolic dimensions of the model; an unbound batch is 1
  std::map<std::string, Tensor>
      constants;  ///< graph inputs bound to a value at compile time (a Reshape's shape, say)
  double max_error = 1e-4;          ///< largest error of an output, as a fraction of its range
  int threads = 0;                  ///< 0: as many as the process may use
  int streams = 0;                  ///< most kernels at once on a GPU; 0: as many as pay, 1: one
  std::filesystem::path cache_dir;  ///< "": the user's cache folder
  std::vector<std::string> disabled_passes;  ///< names of graph passes to skip
  /// Told what long work is at, by the thread that called: "measuring kernel 3 of 21".
  std::function<void(const std::string&)> progress;
  bool plan_only = false;  ///< to look at, not to run: nothing is compiled for a GPU that is not
                           ///< here, and an engine file made for one loads where there is none
};

/// Name, dtype and shape of an input or output, in the order of the model.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

/// An input or output as a model declares it, before its dimensions are bound.
struct DeclaredTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  bool known_rank = false;  ///< false: the model does not say how many axes it has
  Shape shape;              ///< -1: not a number
  /// By axis: what Options::dims binds an input's axis by, "" where the extent is a number; of an
  /// output the model's name, "" where it has none.
  std::vector<std::string> symbols;
};
/// What a model says of itself.
struct ModelInfo {
  std::string name;         ///< of the graph
  std::string producer;     ///< the program that wrote it
  std::string description;  ///< for people
  std::int64_t version = 0;
  std::map<std::string, std::string> metadata;
  std::vector<DeclaredTensor> inputs;  ///< without those that are initializers
  std::vector<DeclaredTensor> outputs;
};

/// One launch of the plan.
struct KernelSummary {
  std::string name;
  std::string backend;             ///< cpu, cuda, cudnn
  std::string family;              ///< conv_direct, pool, ...
  std::string detail;              ///< layouts, epilogue and parameters, for people
  std::vector<std::string> nodes;  ///< ids of the model nodes it does
  std::string kind;                ///< single, epilogue, group, relayout, reference
  double flops = 0;
  double dram_bytes = 0;
  double onchip_bytes = 0;         ///< intermediate bytes that are never written to memory
  double est_us = 0;               ///< estimated, or measured by a tuner
  bool measured = false;           ///< est_us was measured
  int stream = 0;                  ///< kernels of one stream run one after another
  std::vector<std::string> waits;  ///< kernels of other streams that end before it begins
};
struct FoldedNode {
  std::string node;
  std::string into;  ///< the node it became part of, or "constant", "unused", "view"
};
struct NotFused {
  std::vector<std::string> nodes;
  std::string rule;
  std::string reason;
};
struct PlanSummary {
  std::string device;
  bool nhwc_io = false;  ///< Options::nhwc_io of the compilation
  std::vector<KernelSummary> kernels;
  std::vector<FoldedNode> folded;
  std::vector<NotFused> not_fused;
  std::int64_t launches = 0;
  std::int64_t peak_bytes = 0;  ///< arena: all intermediates
  std::int64_t largest_live_bytes =
      0;  ///< largest sum of intermediates alive at once, a lower bound of peak_bytes
  std::int64_t constant_bytes = 0;
  std::vector<std::string> warnings;  ///< what went wrong without harm to the plan, for people
};

/// How far an output, or one kernel's result, is from the reference.
struct Deviation {
  std::string what;      ///< output name; with bisect the kernel's name
  double max_error = 0;  ///< largest |got - reference|
  double allowed = 0;
  bool ok = true;
};
/// What verify compares with: Braze's interpreter, which is naive and obviously right; or where
/// that takes too long (kAuto), Braze's own fp32 CPU kernels, which its tests hold to the
/// interpreter.
enum class Reference : std::uint8_t { kAuto, kInterpreter, kCpu };
struct BRAZE_API VerifyReport {
  Reference reference = Reference::kInterpreter;  ///< which it was
  std::vector<Deviation> outputs;
  std::vector<Deviation> kernels;  ///< bisect: each kernel on the reference's inputs, in order
  [[nodiscard]] bool ok() const;
};

/// A compiled network. Copies share it. run() may be called by several threads at once.
class BRAZE_API Model {
 public:
  [[nodiscard]] const std::vector<TensorInfo>& inputs() const;
  [[nodiscard]] const std::vector<TensorInfo>& outputs() const;
  [[nodiscard]] const PlanSummary& plan() const;

  /// Runs the network on inputs in the order of inputs(), with exactly those dtypes and shapes
  /// (kInput otherwise).
  [[nodiscard]] Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const;
  /// The same into tensors of the caller's, which are undefined after an error. Allocates nothing
  /// after the first call of a thread.
  [[nodiscard]] Status run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs) const;
  /// The number of the GPU that it runs on; -1: it runs on the CPU, or cannot be run here.
  [[nodiscard]] int gpu() const;
  /// The same on tensors in the GPU's own memory (data() is a device address), without copies to
  /// or from the host. Begins after all that was enqueued in `stream` (a CUstream or cudaStream_t
  /// of the GPU's primary context; null: the default stream), and is put into that stream: the call
  /// itself does not wait for the GPU, so that what goes wrong there is told by a later call. In a
  /// stream that is captured it becomes a part of the caller's graph, which the caller keeps from
  /// running beside other runs of this model. Tensors of the same addresses are read and written in
  /// place from the second call on; before, they are copied on the GPU. kUsage for a model that
  /// runs on no GPU.
  [[nodiscard]] Status run_on_gpu(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                  void* stream) const;
  /// Copies outputs that run_on_gpu made in `stream` to the host's, and waits for them.
  [[nodiscard]] Status copy_from_gpu(std::span<const Tensor> outputs, std::span<Tensor> host,
                                     void* stream) const;
  /// For tensors that are made, or read, in streams other than that of run_on_gpu: the next runs
  /// begin after all that is in `stream` by now;
  [[nodiscard]] Status order_after(void* stream) const;
  /// what is put into `stream` from now on begins after all runs so far;
  [[nodiscard]] Status order_before(void* stream) const;
  /// and the host waits for all runs. kUsage for a model that runs on no GPU.
  [[nodiscard]] Status synchronize() const;
  /// Memory on the model's GPU for each output. kUsage for a model that runs on no GPU.
  [[nodiscard]] Result<std::vector<Tensor>> make_gpu_outputs() const;
  /// Seconds each kernel took in one run, in the order of plan().kernels.
  [[nodiscard]] Result<std::vector<double>> profile(std::span<const Tensor> inputs) const;
  /// `iterations` times in seconds after a few to warm up, each of one run, or the mean of `runs`
  /// that follow each other: on a GPU those of the recorded launches, as one CUDA graph, without
  /// copies from and to the host.
  [[nodiscard]] Result<std::vector<double>> time(std::span<const Tensor> inputs, int iterations,
                                                 int runs = 1) const;
  /// The source a kernel was compiled from, by its index in plan().kernels; empty where there is
  /// none.
  [[nodiscard]] std::string source(std::size_t kernel) const;
  /// Compares a run with the reference on the graph as it was read. Only for models compiled here,
  /// not loaded ones. bisect needs the interpreter.
  [[nodiscard]] Result<VerifyReport> verify(std::span<const Tensor> inputs, bool bisect,
                                            Reference reference = Reference::kAuto) const;
  /// Writes an engine file: plan and unpacked weights, versioned and checksummed.
  [[nodiscard]] Status save(const std::filesystem::path& file) const;

  struct State;
  explicit Model(std::shared_ptr<const State> state);

 private:
  std::shared_ptr<const State> state_;
};

/// Reads what an ONNX file declares. kModelInvalid, kIo, kUnsupported for types that Braze lacks.
[[nodiscard]] BRAZE_API Result<ModelInfo> inspect(const std::filesystem::path& file);
/// The same of a model in memory.
[[nodiscard]] BRAZE_API Result<ModelInfo> inspect(std::span<const std::byte> bytes);

/// Compiles an ONNX file.
[[nodiscard]] BRAZE_API Result<Model> compile(const std::filesystem::path& file,
                                              const Options& options);
/// Compiles an ONNX model in memory; external data is looked for in `folder`.
[[nodiscard]] BRAZE_API Result<Model> compile(std::span<const std::byte> bytes,
                                              const std::filesystem::path& folder,
                                              const Options& options);
/// Loads an engine file; `options` gives threads and cache_dir only.
[[nodiscard]] BRAZE_API Result<Model> load(const std::filesystem::path& file,
                                           const Options& options);
/// True if the file begins as an engine file does (otherwise it is taken for ONNX).
[[nodiscard]] BRAZE_API bool is_engine_file(const std::filesystem::path& file);

/// Uniform [-1, 1) from seed 0 for floats, small non-negative numbers for integers: what bench and
/// verify use.
[[nodiscard]] BRAZE_API std::vector<Tensor> random_inputs(const Model& model,
                                                          std::uint64_t seed = 0);

struct TuneOptions {
  int candidates = 8;       ///< of each kernel problem, the best few by estimate
  bool exhaustive = false;  ///< all of them
  /// Asked between measurements; true ends the tuning, which keeps what was measured.
  std::function<bool()> stop;
};
/// A kernel problem: all kernels that do the same work on this device.
struct TunedProblem {
  std::vector<std::string> kernels;  ///< of the tuned plan
  std::string estimated;             ///< the candidate that the estimates prefer
  std::string tuned;                 ///< the one that the plan has now
  double estimated_us = 0;           ///< both as measured; 0: not measured
  double tuned_us = 0;
  std::size_t measured = 0;  ///< candidates measured by this call
};
struct TuneReport {
  std::string device;
  std::filesystem::path database;  ///< "": there is no cache folder, nothing was kept
  std::vector<TunedProblem> problems;
  bool finished = true;     ///< false: stop() ended it
  bool same_plan = false;   ///< measuring changed nothing in the plan
  double estimated_us = 0;  ///< whole network, the plan by estimates; in turns with the
                            ///< tuned one; CPU: least, GPU: median of many runs
  double tuned_us = 0;      ///< with the tuned plan; 0 where not finished
  std::vector<std::string> warnings;
};
/// Measures the candidates of an ONNX file's kernels that the tuning database does not know yet and
/// adds them to it: plans made from now on use them. kDevice for an architecture without a GPU.
[[nodiscard]] BRAZE_API Result<TuneReport> tune(const std::filesystem::path& file,
                                                const Options& options, const TuneOptions& tuning);

/// What is here: one line per device and per library looked for, found or why not.
struct DeviceReport {
  std::string name;
  bool usable = false;
  std::string detail;
};
[[nodiscard]] BRAZE_API std::vector<DeviceReport> devices();

/// Looks for NVIDIA's libraries in the nvidia packages below this site-packages folder too, before
/// the dynamic linker does: there other libraries of this process have theirs. Libraries that were
/// opened stay. Any thread.
BRAZE_API void add_package_folder(const std::filesystem::path& site_packages);

/// Tensor files. .npy and ONNX TensorProto .pb are read; write chooses by the extension (.npy,
/// .pb). kInput, kIo.
[[nodiscard]] BRAZE_API Result<Tensor> read_tensor(const std::filesystem::path& file);
[[nodiscard]] BRAZE_API Status write_tensor(const std::filesystem::path& file,
                                            const Tensor& tensor);

/// "1.0.0"
[[nodiscard]] BRAZE_API const char* version();

}  // namespace braze
