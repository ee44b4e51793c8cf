"""Braze and ONNX Runtime on one model: the same inputs, answers compared, times taken in turns."""
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx


def load_model(file):
    """A model without initializers among its inputs: where they are listed, ONNX Runtime must
    expect them to change, does not pack the weights and runs up to four times slower."""
    model = onnx.load(file)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model


def bind(model, dims):
    """Gives symbolic dimensions a value: by NAME or INPUT.AXIS as --dim does, the batch 1."""
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
                continue
            extent = dims.get(f"{value.name}.{axis}", dims.get(dim.dim_param))
            dim.dim_value = extent if extent is not None or axis else 1
    return model


class OnnxRuntime:
    def __init__(self, model, threads, optimise=True):
        import onnxruntime  # not where GPUs are compared
        options = onnxruntime.SessionOptions()
        level = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = (level.ORT_ENABLE_ALL if optimise
                                            else level.ORT_DISABLE_ALL)
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                                    providers=["CPUExecutionProvider"])

    def run(self, feeds):
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(None, feeds)))

    def bench(self, feeds, iterations):
        return timed(lambda: self.session.run(None, feeds), iterations)


class OpenVino:
    """In fp32, also on processors on which it would take bfloat16."""

    def __init__(self, model, threads):
        import openvino  # of PyPI; not among the project's requirements
        core = openvino.Core()
        compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", {
            "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32",
            "NUM_STREAMS": 1})
        self.request = compiled.create_infer_request()

    def bench(self, feeds, iterations):
        return timed(lambda: self.request.infer(feeds, share_inputs=True), iterations)


def timed(run, iterations, warm_ups=10):
    """{"min_us", "median_us"} of so many runs."""
    for _ in range(warm_ups):
        run()
    times = []
    for _ in range(iterations):
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / 1e3)
    return {"min_us": min(times), "median_us": statistics.median(times)}


class Braze:
    """A network compiled with `options` to an engine file in a temporary folder, or as it is.
    `environment` is what is added to this process's."""

    def __init__(self, program, file, threads, dims=None, options=(), engine=True,
                 environment=None):
        self.program = str(program)
        self.environment = os.environ | (environment or {})
        self.threads = ["--threads", str(threads)]
        self.folder = tempfile.TemporaryDirectory(prefix="braze_")
        self.model = [str(file), *options]
        for name, extent in (dims or {}).items():
            self.model += ["--dim", f"{name}={extent}"]
        self.runnable = self.model
        if engine:
            self.runnable = [str(pathlib.Path(self.folder.name) / "engine")]
            self("compile", *self.model, *self.threads, "-o", *self.runnable)

    def __call__(self, command, *arguments):
        done = subprocess.run([self.program, command, *arguments], capture_output=True, text=True,
                              env=self.environment)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"braze {command} exited {done.returncode}")
        return done.stdout

    def explain(self):
        return json.loads(self("explain", *self.model, *self.threads, "--json"))

    def explain_text(self):
        return self("explain", *self.model, *self.threads)

    def run(self, feeds):
        folder = pathlib.Path(self.folder.name)
        arguments = []
        for i, (name, value) in enumerate(feeds.items()):
            file = folder / str(i)
            if isinstance(value, onnx.TensorProto):  # bfloat16
                file = file.with_suffix(".pb")
                file.write_bytes(value.SerializeToString())
            else:
                file = file.with_suffix(".npy")
                np.save(file, value)
            arguments += ["--input", f"{name}={file}"]
        out = folder / "out"
        listed = json.loads(self("run", *self.runnable, *arguments, *self.threads,
                                 "--output-dir", str(out), "--json"))
        return {output["name"]: load_tensor(out / output["file"]) for output in listed}

    def bench(self, iterations, runs=1):
        return json.loads(self("bench", *self.runnable, *self.threads, "--json", "--iters",
                               str(iterations), "--runs-per-graph", str(runs)))


def to_bfloat16(values, name=""):
    """float32 to a TensorProto, to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    rounded = np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)
    return onnx.TensorProto(name=name, data_type=onnx.TensorProto.BFLOAT16, dims=values.shape,
                            raw_data=rounded.tobytes())


def load_tensor(file):
    """.npy, or .pb with bfloat16, which becomes float32."""
    if file.suffix == ".npy":
        return np.load(file)
    proto = onnx.TensorProto.FromString(file.read_bytes())
    assert proto.data_type == onnx.TensorProto.BFLOAT16 and proto.raw_data
    bits = np.frombuffer(proto.raw_data, np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32).reshape(tuple(proto.dims))


def worst_error(got, expected):
    """The largest difference of any output, as a fraction of that output's range (taken for 1e-3
    where it is less: ONNX Runtime's Sigmoid is off by 1e-7 even where the result is tiny)."""
    worst = 0.0
    for name, want in expected.items():
        have = got[name]
        if have.shape != want.shape or have.dtype != want.dtype:
            return float("inf")
        a, b = have.astype(np.float64), want.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        finite = np.isfinite(b)
        span = np.abs(b[finite]).max(initial=1e-3)
        worst = max(worst, float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / span)
    return worst


def in_turns(contestants, rounds=5):
    """{name: {"min_us", "median_us"}} over rounds in which each runs once, one after another.
    contestants: {name: function that runs it some times and returns the same}."""
    seen = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            seen[name].append(run())
    return {name: {"min_us": min(r["min_us"] for r in runs),
                   "median_us": statistics.median(r["median_us"] for r in runs)}
            for name, runs in seen.items()}


def random_feeds(model, seed=0):
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        shape = [dim.dim_value for dim in tensor.shape.dim]
        feeds[value.name] = rng.uniform(-1, 1, shape).astype(dtype)
    return feeds


def ocr_models():
    """The text detection, direction and recognition networks of PyPI's rapidocr, by task."""
    import importlib.util
    folder = pathlib.Path(importlib.util.find_spec("rapidocr").origin).parent / "models"
    return {task: next(folder.glob(f"*_{task}_*.onnx")) for task in ("det", "cls", "rec")}


def hardware():
    cpu = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    return f"{cpu}, {len(os.sched_getaffinity(0))} cores"


def write_report(output, title, about, lines, results):
    """OUTPUT.json with everything, OUTPUT.md with the lines (a table and what follows it)."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.with_suffix(".json").write_text(json.dumps(about | results, indent=1) + "\n")
    output.with_suffix(".md").write_text(
        f"# {title}\n\n" + "".join(f"{key}: {value}  \n" for key, value in about.items())
        + "\n" + "\n".join(lines) + "\n")
