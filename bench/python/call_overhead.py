#!/usr/bin/env python3
"""What a call from Python costs: a network of one node, called as users call it, beside the same
run in C++ and beside ONNX Runtime or torch, in turns in the same process.

    python bench/python/call_overhead.py [--device cuda] [--output FILE.md]

C++ is Model::time(): the library's own loop around the run that a call makes; on a GPU the launches
alone, timed by events there. What is printed are microseconds: the least and the median, on the CPU
of all calls, on a GPU (where a call returns before the work is done) of the means of loops of calls,
and of one call with the wait for the GPU. Exits 1 if an answer is wrong.
"""
import argparse
import datetime
import os
import pathlib
import platform
import statistics
import sys
import time

import numpy as np
from onnx import TensorProto, helper

import braze

SHAPE = [1, 16, 4, 4]
ROUNDS, CALLS = 40, 500


def network():
    """relu of [1, 16, 4, 4]."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one_node", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def random_input():
    return np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)


def each(call):
    """Microseconds of each of CALLS calls."""
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - begin) / 1e3)
    return times


def require(answers, want):
    if not all(np.array_equal(answer, want) for answer in answers):
        sys.exit("call_overhead: an answer is wrong")


def cases_on_cpu(data):
    import onnxruntime

    x = random_input()
    model = braze.compile(data, threads=1)
    session = braze.InferenceSession(data, threads=1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    theirs = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    out = np.empty_like(x)
    found = {
        "C++ (Model::time)": lambda: [s * 1e6 for s in model._native.time((x,), CALLS)],
        "model(x)": lambda: each(lambda: model(x)),
        "model(x, out=y)": lambda: each(lambda: model(x, out=out)),
        "braze session.run": lambda: each(lambda: session.run(None, {"x": x})),
        "onnxruntime session.run": lambda: each(lambda: theirs.run(None, {"x": x})),
        "nothing (the clock)": lambda: each(lambda: None),
    }
    answers = [model(x), model(x, out=out), session.run(None, {"x": x})[0],
               theirs.run(None, {"x": x})[0]]
    try:
        import torch
    except ImportError:
        pass
    else:
        tensor, result = torch.from_numpy(x), torch.empty(SHAPE)
        answers += [model(tensor).numpy(), model(tensor, out=result).numpy()]
        found["model(torch tensor)"] = lambda: each(lambda: model(tensor))
        found["model(torch tensor, out=y)"] = lambda: each(lambda: model(tensor, out=result))
    require(answers, np.maximum(x, 0))
    return found


def bind(session, x, out):
    """A call on tensors that are bound to a session's input and output."""
    binding = session.io_binding()
    for call, name, tensor in ((binding.bind_input, "x", x), (binding.bind_output, "y", out)):
        call(name, "cuda", 0, np.float32, SHAPE, tensor.data_ptr())
    return lambda: session.run_with_iobinding(binding)


def cases_on_gpu(data):
    """Calls by name, and the microseconds of the launches alone, by events on the GPU."""
    import torch

    model = braze.compile(data, device="cuda")
    host = random_input()
    x = torch.from_numpy(host).cuda()
    out = torch.empty_like(x)
    here, there = (braze._braze.view_memory(t.data_ptr(), "float", SHAPE, 0) for t in (x, out))
    address = torch.cuda.current_stream().cuda_stream
    session = braze.InferenceSession(data, providers=["CUDAExecutionProvider"])
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.relu(x)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = torch.relu(x)
    into_out = {
        "model(x, out=y)": lambda: model(x, out=out),
        "model(x, out=y, stream=s)": lambda: model(x, out=out, stream=address),
        "session.run_with_iobinding": bind(session, x, out),
        "the binding of C++ alone": lambda: model._native.run((here,), (there,), address),
        "torch.clamp_min(x, 0, out=y)": lambda: torch.clamp_min(x, 0, out=out),
    }
    others = {"model(x)": lambda: model(x), "torch.relu(x)": lambda: torch.relu(x),
              "torch graph.replay()": graph.replay}
    try:
        import onnxruntime

        if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
            theirs = onnxruntime.InferenceSession(data, providers=["CUDAExecutionProvider"])
            into_out["onnxruntime run_with_iobinding"] = bind(theirs, x, out)
    except ImportError:
        pass
    answers = []
    for call in into_out.values():
        out.fill_(-1)
        call()
        answers.append(out.cpu().numpy())
    graph.replay()
    answers += [model(x).cpu().numpy(), result.cpu().numpy()]
    try:
        import cupy
    except ImportError:
        pass
    else:
        array, given = cupy.asarray(host), cupy.empty(SHAPE, np.float32)
        answers.append(cupy.asnumpy(model(array, out=given)))
        others["model(cupy array, out=y)"] = lambda: model(array, out=given)
    require(answers, np.maximum(host, 0))
    alone = [s * 1e6 for s in model._native.time((host,), 2000)]
    return {**into_out, **others}, alone, torch.cuda.synchronize


def measure_on_gpu(found, wait, rounds, calls):
    """Of each: means of loops of calls without waiting, and single calls with the wait."""
    loops, waited = {name: [] for name in found}, {name: [] for name in found}
    for turn in range(rounds + 5):
        for name, call in found.items():
            wait()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            if turn >= 5:
                loops[name].append((time.perf_counter() - begin) / calls * 1e6)
            wait()
            for _ in range(20):
                begin = time.perf_counter()
                call()
                wait()
                if turn >= 5:
                    waited[name].append((time.perf_counter() - begin) * 1e6)
    return loops, waited


def summary(values):
    return f"{min(values):.2f} / {statistics.median(values):.2f}"


def cpu_table(data):
    found = cases_on_cpu(data)
    times = {name: [] for name in found}
    for _ in range(ROUNDS):
        for name, measure in found.items():
            times[name] += measure()
    base = times["C++ (Model::time)"]
    lines = ["| call | us (min / median) | over C++ (min / median) |", "|---|---|---|"]
    for name, values in times.items():
        over = [row(values) - row(base) for row in (min, statistics.median)]
        lines.append(f"| {name} | {summary(values)} | {over[0]:.2f} / {over[1]:.2f} |")
    return lines, f"1 thread; {ROUNDS} x {CALLS} calls of each, in turns"


def gpu_table(data, rounds=ROUNDS, calls=200):
    found, alone, wait = cases_on_gpu(data)
    loops, waited = measure_on_gpu(found, wait, rounds, calls)
    lines = ["| call | us of the host (min / median) | with the wait for the GPU (min / median) |",
             "|---|---|---|", f"| C++ (Model::time), by events | - | {summary(alone)} |"]
    lines += [f"| {name} | {summary(loops[name])} | {summary(waited[name])} |" for name in found]
    return lines, f"{rounds} x {calls} calls of each without a wait, {rounds} x 20 with, in turns"


def versions():
    modules = ("numpy", "onnxruntime", "torch", "cupy")
    return ", ".join(f"{name} {sys.modules[name].__version__}" for name in modules
                     if name in sys.modules)


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def document(lines, how, device, command):
    """The table as bench/results has it."""
    gpu = f"{braze.devices()['cuda:0'].split(',')[0]}, " if device == "cuda" else ""
    return "\n".join([
        "# What a call from Python costs" + (" on a GPU" if gpu else ""), "",
        f"command: {command}  ",
        f"date: {datetime.date.today().isoformat()}  ",
        f"hardware: {gpu}{cpu_model()}, {os.cpu_count()} cores  ",
        f"python: {platform.python_version()}, {versions()}  ",
        f"network: relu of float{SHAPE}; {how}", "", *lines]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--output", type=pathlib.Path, help="also write a table here")
    args = parser.parse_args()
    data = network().SerializeToString()
    lines, how = cpu_table(data) if args.device == "cpu" else gpu_table(data)
    print("\n".join(lines))
    if args.output:
        options = f"--device {args.device} " if args.device != "cpu" else ""
        command = f"bench/python/call_overhead.py {options}--output {args.output}"
        args.output.write_text(document(lines, how, args.device, command))


if __name__ == "__main__":
    main()
