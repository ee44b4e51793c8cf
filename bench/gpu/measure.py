#!/usr/bin/env python3
"""Measures one case after the other: a JSON object per line in, a row of results per line out.

A case: {"file", "dims": {NAME: VALUE}, "precision", "backend", "device", "braze": program,
"rounds", "seconds" of timing in each round, "model_io": whether to try the model's own inputs and
outputs as well, "fusions": whether to time --fusion epilogue too, "cutlass": a call of
cutlass_peer.cu, to time after all else, and Braze's kernels of sm_80 with all else}. Answers are compared first. Then
Braze, the peers, Braze, the peers, ...: each time is of one inference in a CUDA graph of as many as
fit in 2 ms, at most 50, and is the median over the rounds of the medians in a round; "alone" are
the times of a graph of one inference, the time between its replays included.
"""
import gc
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import numpy as np  # noqa: E402
import torch  # noqa: E402

import peer  # noqa: E402
from onnx_torch import Captured, TorchModel  # noqa: E402

# Type, and the largest error of a peer, as a fraction of an output's range: beyond it the peer does
# not compute this network. Braze may be off by ALLOWED_FACTOR times what the peers are.
PRECISIONS = {"fp32": (torch.float32, 1e-3), "tf32": (torch.float32, 5e-2),
              "fp16": (torch.float16, 5e-2), "bf16": (torch.bfloat16, 2e-1)}
ALLOWED_FACTOR, ALLOWED_FLOOR = 4, 1e-5
# Kernels of sm_80, and environments for them.
SM80 = {"braze, sm_80": {"BRAZE_ISA": "sm_80"},
        "braze, sm_80 joined": {"BRAZE_ISA": "sm_80", "BRAZE_JOIN": "most"}}
GRAPH_SECONDS, MOST_RUNS = 2e-3, 50  # inferences in one graph

# Of an H200, as measured: TFLOP/s, and TB/s of its memory.
CEILINGS = {"H200": ({"fp32": 67, "tf32": 395, "fp16": 790, "bf16": 790}, 4.3)}


class Repeated:
    """What Captured is on a GPU, by calling again and again: for trying this file without one."""

    def __init__(self, model, feeds):
        self.model, self.feeds = model, feeds

    def run(self):
        return self.model.run(self.feeds)

    def times(self, iterations, runs=1, warm_ups=1):
        times = []
        for _ in range(warm_ups + iterations):
            start = time.perf_counter()
            self.run()
            times.append((time.perf_counter() - start) * 1e6)
        return times[warm_ups:]


def allow_tf32(allowed):
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = allowed


def reference(model, feeds, device, dims):
    """fp32, node by node, on the device; its first picture is checked on the CPU."""
    allow_tf32(False)
    answer = TorchModel(model, device, channels_last=False).run(feeds)
    batch = dims.get("N", 1)
    first = {name: value[:1] if batch > 1 else value for name, value in feeds.items()}
    expected = TorchModel(model, channels_last=False).run(first)
    got = {name: value[:1] if batch > 1 else value for name, value in answer.items()}
    error = peer.worst_error(got, expected)
    if not error <= PRECISIONS["fp32"][1]:
        raise RuntimeError(f"the reference on the GPU is off by {error:.1e} from that on the CPU")
    return answer


def peers_of(model, feeds, device, precision):
    """{name: [variants]}: the fastest variant counts. fp32 is tried in both layouts, and a network
    with grouped convolutions with and without fused calls for them."""
    allow_tf32(precision != "fp32")
    runner = Captured if device == "cuda" else Repeated
    dtype = PRECISIONS[precision][0]
    peers = {"cudnn fused": [], "eager": []}
    for channels_last in (True, False) if precision == "fp32" else (True,):
        options = dict(device=device, dtype=dtype, channels_last=channels_last)
        fused = [TorchModel(model, fused=True, grouped=grouped, **options)
                 for grouped in (False, True)]
        if fused[0].fused_calls() == fused[1].fused_calls():
            fused.pop()
        peers["cudnn fused"] += [runner(variant, feeds) for variant in fused]
        peers["eager"].append(runner(TorchModel(model, **options), feeds))
    return peers


class Braze:
    """With inputs and outputs as the model has them, or channels-last and in the compute type."""

    def __init__(self, case, native, more=(), environment=None):
        self.native, self.precision = native, case["precision"]
        options = ["--device", case["device"], "--precision", self.precision,
                   "--backend", case["backend"], *more]
        if native:
            options += ["--io-layout", "nhwc", "--io-dtype", "compute"]
        self.braze = peer.Braze(case["braze"], case["file"], 0, case["dims"], options,
                                engine=False, environment=environment)

    def convert(self, value):
        if value.ndim > 2:
            value = np.moveaxis(value, 1, -1)
        if value.dtype == np.float32 and self.precision == "fp16":
            value = value.astype(np.float16)
        if value.dtype == np.float32 and self.precision == "bf16":
            return peer.to_bfloat16(value)
        return np.ascontiguousarray(value)

    def run(self, feeds):
        if not self.native:
            return self.braze.run(feeds)
        outputs = self.braze.run({name: self.convert(value) for name, value in feeds.items()})
        return {name: (np.moveaxis(value, -1, 1) if value.ndim > 2 else value).astype(np.float32)
                for name, value in outputs.items()}

    def bench(self, iterations, runs=1):
        return self.braze.bench(iterations, runs)


def plan_facts(plan, model, feeds, outputs, precision):
    """What the plan says, and two bounds: "floor_us" if the network were one kernel (arithmetic, or
    inputs, outputs and weights once), "launch_floor_us" the sum of each kernel's own."""
    facts = {"cudnn": sum(k["backend"] == "cudnn" for k in plan["kernels"]),
             "reference": sum(k["kind"] == "reference" for k in plan["kernels"])}
    names = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    for name, (rates, bandwidth) in CEILINGS.items():
        if name in names:
            rate, bandwidth = rates[precision] * 1e6, bandwidth * 1e6  # per microsecond
            width = 2 if precision in ("fp16", "bf16") else 4
            elements = sum(math.prod(t.dims) for t in model.graph.initializer)
            elements += sum(v.size for v in (*feeds.values(), *outputs.values()))
            flops = sum(k["flops"] for k in plan["kernels"])
            facts["floor_us"] = max(flops / rate, elements * width / bandwidth)
            facts["launch_floor_us"] = sum(max(k["flops"] / rate, k["dram_bytes"] / bandwidth)
                                           for k in plan["kernels"])
    return facts


def errors_of(runs, expected):
    errors = {}
    for name, run in runs.items():
        got = {output: value.astype(np.float32) for output, value in run().items()}
        errors[name] = peer.worst_error(got, expected)
    return errors


def cutlass(call):
    """What cutlass_peer.cu prints."""
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        return {"cannot": done.stderr.strip() or f"it exited {done.returncode}"}
    return json.loads(done.stdout)


def measure(case):
    model = peer.bind(peer.load_model(case["file"]), case["dims"])
    feeds = peer.random_feeds(model)
    device = "cuda" if case["device"].startswith("cuda") else "cpu"
    expected = reference(model, feeds, device, case["dims"])
    if device == "cuda":
        torch.cuda.empty_cache()
    peers = peers_of(model, feeds, device, case["precision"])
    braze = {"braze": Braze(case, native=True)}
    if case["model_io"]:
        braze["braze, model i/o"] = Braze(case, native=False)
    if case.get("fusions"):
        braze["braze, epilogue"] = Braze(case, native=True, more=["--fusion", "epilogue"])

    if case.get("cutlass"):
        for name, environment in SM80.items():
            braze[name] = Braze(case, native=True, environment=environment)

    runs = {f"{name} {i}": variant.run for name, variants in peers.items()
            for i, variant in enumerate(variants)}
    peer_errors = errors_of(runs, expected)
    allowed = ALLOWED_FACTOR * max(peer_errors.values()) + ALLOWED_FLOOR
    errors = errors_of({name: lambda one=one: one.run(feeds) for name, one in braze.items()},
                       expected)
    row = {"nodes": len(model.graph.node), "errors": errors | peer_errors, "allowed": allowed}
    row |= plan_facts(braze["braze"].braze.explain(), model, feeds, expected, case["precision"])
    wrong = {name: error for name, error in errors.items() if not error <= allowed}
    wrong |= {name: error for name, error in peer_errors.items()
              if not error <= PRECISIONS[case["precision"]][1]}
    if wrong:
        return row | {"failed": "WRONG: " + ", ".join(f"{name} is off by {error:.1e}"
                                                      for name, error in wrong.items())}
    row |= times_of(braze, peers, case)
    if case.get("cutlass"):
        row["cutlass"] = cutlass(case["cutlass"])
    return row


def times_of(braze, peers, case):
    """"us": of an inference in a graph of several; "alone": in a graph of one."""
    quick = statistics.median(peers["cudnn fused"][0].times(10)) * 1e-6
    graph = max(1, min(MOST_RUNS, int(GRAPH_SECONDS / quick)))
    iterations = max(50, min(2000, int(case["seconds"] / quick / graph)))
    launches = {}

    def bench(name, iterations, runs):
        result = braze[name].bench(iterations, runs)
        launches[name] = result["launches"]
        return result["median_us"]

    def in_turns(names, runs, iterations, rounds):
        takers = {(name, i): lambda one=variant: statistics.median(one.times(iterations, runs))
                  for name, variants in peers.items() for i, variant in enumerate(variants)}
        takers |= {(name, 0): lambda name=name: bench(name, iterations, runs) for name in names}
        taken = {key: [] for key in takers}
        for _ in range(rounds):
            for key, take in reversed(takers.items()):
                taken[key].append(take())
        us = {}
        for (name, _), times in taken.items():
            us[name] = min(us.get(name, math.inf), statistics.median(times))
        return us, taken

    compared = [name for name in braze if name != "braze, model i/o"]
    us, taken = in_turns(compared, graph, iterations, case["rounds"])
    alone = in_turns(["braze"], 1, min(200, iterations * graph), 1)[0] if graph > 1 else us
    if case["model_io"]:
        us["braze, model i/o"] = bench("braze, model i/o", iterations, graph)
    return {"us": us, "alone": alone, "runs_per_graph": graph, "iterations": iterations,
            "launches": launches,
            "rounds": {f"{name} {i}": times for (name, i), times in taken.items()}}


def main():
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no result
    torch.backends.cudnn.benchmark = True
    for line in sys.stdin:
        try:
            row = measure(json.loads(line))
        except Exception as error:  # noqa: BLE001: one case, not the rest
            row = {"failed": f"{type(error).__name__}: {error}"}
        gc.collect()
        try:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
        except RuntimeError as error:  # this process has lost the GPU: the next case needs another
            row = {"failed": f"{type(error).__name__}: {error}", "ended": True} | row
        print(json.dumps(row), file=results, flush=True)


if __name__ == "__main__":
    main()
