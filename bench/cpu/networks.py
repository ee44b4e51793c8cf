#!/usr/bin/env python3
"""Whole networks on the CPU: Braze beside ONNX Runtime and OpenVINO, where that is installed;
answers compared first, times in turns. Braze runs joined (--fusion full) and with epilogues only.

Where the machine gives hardware counters, instructions and bytes from memory of a run follow; where
it does not, the report says why.

Networks come from --models (every .onnx in those folders) and from PyPI's rapidocr; with
--generated, instead, well-known ones and chains of convolutions with seeded weights, at batch 1. The
table goes to stdout and, with the command, the date and the machine, to --output.
"""
import argparse
import datetime
import importlib.util
import math
import pathlib
import shlex
import sys
import tempfile

import onnxruntime

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "networks")]
import chain_models  # noqa: E402
import counters  # noqa: E402
import generate  # noqa: E402
import peer  # noqa: E402

ROOT = HERE.parent.parent
LARGEST_ERROR = 1e-3  # of an output's range, against ONNX Runtime without optimisation
OCR_DIMS = {"det": {"x.2": 480, "x.3": 640}, "cls": {"x.2": 48, "x.3": 192}, "rec": {"x.3": 320}}


def networks(folders):
    """(name, file, dims)"""
    found = []
    for folder in folders:
        for file in sorted(pathlib.Path(folder).glob("*.onnx")):
            found.append((file.stem, file, {}))
    for task, file in peer.ocr_models().items():
        found.append((file.stem, file, OCR_DIMS[task]))
    return found


def generated(folder):
    """The same of networks and chains with seeded weights."""
    one = {"N": 1}
    for name in ("resnet50", "mobilenet_v2", "efficientnet_b0"):
        yield name, generate.write(name, folder), one
    for i, chain in enumerate(chain_models.CHIMERA):
        name = f"Chimera C{i + 1}: {chain_models.name_of(*chain)}"
        yield name, chain_models.write(
            name, lambda chain=chain: chain_models.convolutions(*chain), folder), one
    for block in ((24, 56, 144, 24, 1), (24, 112, 144, 24, 1), *chain_models.MOBILE[1:]):
        name = chain_models.block_name(*block)
        yield name, chain_models.write(
            name, lambda block=block: chain_models.inverted_residual(*block), folder), one


def measure(program, file, dims, threads, rounds, iterations, count=False):
    model = peer.bind(peer.load_model(file), dims)
    feeds = peer.random_feeds(model)
    braze = peer.Braze(program, file, threads, dims)
    error = peer.worst_error(braze.run(feeds),
                             peer.OnnxRuntime(model, threads, optimise=False).run(feeds))
    plan = braze.explain()
    row = {"nodes": len(model.graph.node), "launches": plan["launches"], "error": error}
    if error > LARGEST_ERROR:
        return row
    epilogue = peer.Braze(program, file, threads, dims, ["--fusion", "epilogue"])
    runtime = peer.OnnxRuntime(model, threads)
    benches = {"onnxruntime": lambda n: runtime.bench(feeds, n),
               "braze": lambda n: braze.bench(max(n, 50)),
               "epilogue": lambda n: epilogue.bench(max(n, 50))}
    if importlib.util.find_spec("openvino"):
        openvino = peer.OpenVino(model, threads)
        benches["openvino"] = lambda n: openvino.bench(feeds, n)
    row |= peer.in_turns({name: lambda bench=bench: bench(iterations)
                          for name, bench in benches.items()}, rounds)
    if count:
        row["counted"] = {name: counters.of_one_run(bench) for name, bench in benches.items()}
    for name in benches:
        if name != "braze":
            row[f"over {name}"] = row["braze"]["min_us"] / row[name]["min_us"]
    row["ratio"] = row["over onnxruntime"]
    return row


PEERS = ("onnxruntime", "openvino", "epilogue")


def mean_of(rows, peer_name):
    """Geometric mean of the ratios to a peer, over how many networks, and the largest."""
    ratios = [row[f"over {peer_name}"] for row in rows.values() if f"over {peer_name}" in row]
    if not ratios:
        return None
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return {"mean": mean, "networks": len(ratios), "worst": max(ratios)}


def line(name, row):
    counts = f"{row['nodes']} / {row['launches']}"
    if "ratio" not in row:
        return f"| {name} | {counts} | | | | | | | WRONG: {row['error']:.1e} |"
    times = " | ".join(f"{row[k]['min_us'] / 1e3:.3f} / {row[k]['median_us'] / 1e3:.3f}"
                       if k in row else "" for k in ("braze", "onnxruntime", "openvino"))
    ratios = " | ".join(f"{row[f'over {k}']:.2f}" if f"over {k}" in row else "" for k in PEERS)
    return f"| {name} | {counts} | {times} | {ratios} | {row['error']:.1e} |"


def counted_lines(rows):
    """A table of what was counted, by network."""
    names = ("braze", "epilogue", "onnxruntime", "openvino")
    lines = ["", "Counted in one run, instructions (millions) / bytes from memory (MB):", "",
             "| network | Braze | epilogues only | ONNX Runtime | OpenVINO |", "|---|---|---|---|---|"]
    for network, row in rows.items():
        of = row.get("counted", {})
        cells = " | ".join(f"{of[name]['instructions'] / 1e6:.2f} / "
                           f"{of[name]['cache_misses'] * counters.LINE / 1e6:.3f}"
                           if name in of else "" for name in names)
        lines.append(f"| {network} | {cells} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--braze", default=ROOT / "build/release/bin/braze")
    parser.add_argument("--models", nargs="*", default=[ROOT.parent / "shared" / "models"])
    parser.add_argument("--generated", action="store_true", help="see above")
    parser.add_argument("--only", help="networks whose name holds this text")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=50, help="of each in each round")
    parser.add_argument("--output", type=pathlib.Path,
                        default=ROOT / "bench" / "results" / "cpu_networks")
    args = parser.parse_args()

    head = ["| network | nodes / launches | Braze ms (min / median) | ONNX Runtime ms | OpenVINO "
            "ms | minima: over ONNX Runtime | over OpenVINO | joined over epilogues only "
            "| error / range |", "|---|---|---|---|---|---|---|---|---|"]
    print("\n".join(head))
    rows, lines = {}, []
    refusal = counters.refusal()
    with tempfile.TemporaryDirectory(prefix="braze_networks_") as folder:
        found = generated(pathlib.Path(folder)) if args.generated else networks(args.models)
        for name, file, dims in found:
            if args.only and args.only not in name:
                continue
            try:
                rows[name] = measure(args.braze, file, dims, args.threads, args.rounds,
                                     args.iterations, refusal is None and args.threads == 1)
                lines.append(line(name, rows[name]))
            except RuntimeError as error:
                rows[name] = {"failed": str(error)}
                lines.append(f"| {name} | | | | | | | | {error} |")
            print(lines[-1], flush=True)

    means = {name: mean for name in PEERS if (mean := mean_of(rows, name))}
    summary = [f"Geometric mean over {name} ({m['networks']} networks): {m['mean']:.3f}, worst "
               f"{m['worst']:.2f}  " for name, m in means.items()]
    # Those of workers that exist already are not counted.
    if refusal or args.threads == 1:
        summary += ["", f"No hardware counters here: {refusal}"] if refusal else counted_lines(
            rows)
    print("\n".join(summary))
    about = {"command": shlex.join(["bench/cpu/networks.py", *sys.argv[1:]]),
             "date": datetime.date.today().isoformat(), "hardware": peer.hardware(),
             "onnxruntime": onnxruntime.__version__, "threads": args.threads}
    peer.write_report(args.output, "Networks on the CPU", about, [*head, *lines, "", *summary],
                      {"means": means, "networks": rows})
    return 0 if rows and all("ratio" in row for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
