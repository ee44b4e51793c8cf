#!/usr/bin/env python3
"""What a call from Python costs: a network of one node, called as users call it, beside the same
run in C++ and beside ONNX Runtime, in turns in the same process.

    python bench/python/call_overhead.py [--output FILE.md]    (where braze is installed)

C++ is Model::time(): the library's own loop around the run that a call makes. What is printed are
microseconds: the least and the median of all calls. Exits 1 if an answer is wrong.
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
import onnxruntime
from onnx import TensorProto, helper

import braze

SHAPE = [1, 16, 4, 4]
ROUNDS, CALLS = 40, 500


def network():
    """relu of [1, 16, 4, 4]."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one_node", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def each(call):
    """Microseconds of each of CALLS calls."""
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - begin) / 1e3)
    return times


def cases(model_proto):
    data = model_proto.SerializeToString()
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    want = np.maximum(x, 0)
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
        tensor = torch.from_numpy(x)
        answers.append(model(tensor).numpy())
        found["model(torch tensor)"] = lambda: each(lambda: model(tensor))
    if not all(np.array_equal(answer, want) for answer in answers):
        sys.exit("call_overhead: an answer is wrong")
    return found


def torch_version():
    return f", torch {sys.modules['torch'].__version__}" if "torch" in sys.modules else ""


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, help="also write a table here")
    args = parser.parse_args()
    found = cases(network())
    times = {name: [] for name in found}
    for _ in range(ROUNDS):
        for name, measure in found.items():
            times[name] += measure()
    result = {name: {"min_us": min(values), "median_us": statistics.median(values)}
              for name, values in times.items()}
    base = result["C++ (Model::time)"]
    lines = ["| call | us (min / median) | over C++ (min / median) |", "|---|---|---|"]
    for name, row in result.items():
        over = [row[key] - base[key] for key in ("min_us", "median_us")]
        lines.append(f"| {name} | {row['min_us']:.2f} / {row['median_us']:.2f} | "
                     f"{over[0]:.2f} / {over[1]:.2f} |")
    print("\n".join(lines))
    if args.output:
        args.output.write_text("\n".join([
            "# What a call from Python costs", "",
            f"command: bench/python/call_overhead.py --output {args.output}  ",
            f"date: {datetime.date.today().isoformat()}  ",
            f"hardware: {cpu_model()}, {os.cpu_count()} cores  ",
            f"python: {platform.python_version()}, numpy {np.__version__}, "
            f"onnxruntime {onnxruntime.__version__}{torch_version()}  ",
            f"network: relu of float{SHAPE}, 1 thread; {ROUNDS} x {CALLS} calls of each, in turns",
            "", *lines]) + "\n")


if __name__ == "__main__":
    main()
