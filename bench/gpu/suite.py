"""Cases one after the other within a time budget, each safe from the others; their table."""
import argparse
import datetime
import json
import os
import pathlib
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "networks")]
import peer  # noqa: E402

ROOT = HERE.parent.parent
HEAD = ["| {what} | N | precision | backend | launches (model i/o) | Braze us | not joined us | "
        "model i/o us | cuDNN fused us | ratio | eager us | ratio | alone: Braze, cuDNN fused us | "
        "floor us, by launch | error (cuDNN fused) |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]


class Worker:
    """A measure.py process, started when needed and ended when a case fails to return in time."""

    def __init__(self, log):
        self.log, self.process = log, None

    def measure(self, case, timeout):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([sys.executable, HERE / "measure.py"], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=self.log, start_new_session=True)
        try:
            self.process.stdin.write(json.dumps(case) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.stop("the measuring process had ended")
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                return self.stop(f"not done after {timeout:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            return self.stop("the measuring process ended")
        row = json.loads(line)
        if row.pop("ended", False):
            self.stop()
        return row

    def stop(self, reason=""):
        """Ends the process and the Braze it may be running."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
            self.process = None
        return {"failed": reason}


def arguments(description, output):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--braze", type=pathlib.Path, default=ROOT / "build/release",
                        help="Braze's install tree, or the program itself")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", nargs="*", default=["braze"], help="braze, cudnn or auto")
    parser.add_argument("--precision", nargs="*", help="instead of the usual ones")
    parser.add_argument("--batch", nargs="*", type=int, help="only these")
    parser.add_argument("--only", help="cases whose name holds this text")
    parser.add_argument("--quick", action="store_true", help="a few telling cases")
    parser.add_argument("--minutes", type=float, default=600, help="what does not fit is listed")
    parser.add_argument("--timeout", type=float, default=240, help="seconds for one case")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="of timing in each round")
    parser.add_argument("--resume", action="store_true",
                        help="keep the rows of the last run's OUTPUT.json and run what is not in it")
    parser.add_argument("--folder", type=pathlib.Path, help="to keep generated networks in")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench/results" / output)
    return parser


def select(cases, args):
    """Cases (dicts with name, batch, precision, quick, make; what "more" measure.py is to be told)
    that the arguments leave, in order."""
    chosen = {}
    for case in cases:
        if args.only and args.only not in case["name"] or args.quick and not case["quick"]:
            continue
        if args.batch and case["batch"] not in args.batch:
            continue
        for precision in args.precision or [case["precision"]]:
            for backend in args.backend:
                key = (case["name"], case["batch"], precision, backend)
                chosen.setdefault(key, case | {"precision": precision, "backend": backend})
    return list(chosen.values())


def text(number, format_="{:.1f}"):
    return "" if number is None else format_.format(number)


def line(case, row):
    title = f"| {case['name']} | {case['batch']} | {case['precision']} | {case['backend']} |"
    if "failed" in row:
        reason = " ".join(row["failed"].split()).replace("|", "/")
        return f"{title} | | | | | | | | | | {reason[:300]} |"
    us, launches, errors = row["us"], row["launches"], row["errors"]
    counts = str(launches["braze"])
    if "braze, model i/o" in launches:
        counts += f" ({launches['braze, model i/o']})"
    if row["reference"]:
        counts += f", {row['reference']} by the interpreter"
    floors = ", ".join(text(row.get(key)) for key in ("floor_us", "launch_floor_us")).strip(", ")
    alone = ", ".join(text(row["alone"][key]) for key in ("braze", "cudnn fused"))
    return (f"{title} {counts} | {text(us['braze'])} | {text(us.get('braze, epilogue'))} | "
            f"{text(us.get('braze, model i/o'))} | "
            f"{text(us['cudnn fused'])} | {us['braze'] / us['cudnn fused']:.2f} | "
            f"{text(us['eager'])} | {us['braze'] / us['eager']:.2f} | "
            f"{alone} | {floors} | "
            f"{errors['braze']:.1e} ({errors['cudnn fused 0']:.1e}) |")


def about(args):
    """The command, the date, the machine; PyTorch's own view of it from a process of its own."""
    probe = ("import torch as t; c = t.cuda.is_available(); print(t.__version__, '| cuDNN', "
             "t.backends.cudnn.version(), '|', t.cuda.get_device_name() if c else 'no GPU')")
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout
    torch, cudnn, gpu = (part.strip() for part in (found or "?|?|?").split("|"))
    facts = {"command": shlex.join([f"bench/gpu/{pathlib.Path(sys.argv[0]).name}", *sys.argv[1:]]),
             "date": datetime.date.today().isoformat(), "gpu": gpu, "host": peer.hardware(),
             "torch": f"{torch}, {cudnn}", "times": "us of an inference in a CUDA graph of as many "
             "as fit in 2 ms, at most 50 (alone: of one), medians of replays back to back, "
             f"{args.rounds} rounds in turns"}
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,power.limit",
                 "--format=csv,noheader"]
        facts["driver, clock, power"] = subprocess.run(query, capture_output=True,
                                                       text=True).stdout.strip()
    return facts


def program_of(path):
    """The program in an install tree, or the path itself."""
    return str((path / "bin" / "braze" if path.is_dir() else path).resolve())


KNOWN = ("name", "batch", "precision", "backend")


def finished(output):
    """Rows of an earlier run, by case, that need not be measured again."""
    file = output.with_suffix(".json")
    rows = json.loads(file.read_text())["cases"] if file.exists() else []
    return {tuple(row[key] for key in KNOWN): row for row in rows if "failed" not in row}


def run(title, what, cases, args, model_io, fusions=False, table=(HEAD, line)):
    """Runs the selected cases in their order and writes the report after each. The exit code.
    `fusions`: times --fusion epilogue too. `table`: its head, and what makes a line of a row."""
    deadline = time.monotonic() + 60 * args.minutes
    cases, facts = select(cases, args), about(args)
    head, line_of = table
    lines = [row.format(what=what) for row in head]
    print("\n".join(lines), flush=True)
    rows, left = [], [f"{c['name']} N={c['batch']} {c['precision']} {c['backend']}" for c in cases]
    done = finished(args.output) if args.resume else {}

    def report():
        tail = ["", f"Not run: {'; '.join(left) or 'nothing'}."]
        peer.write_report(args.output, title, facts, lines + tail, {"cases": rows, "not_run": left})
        return tail

    def measure_all(folder, worker):
        for case in cases:
            known = {key: case[key] for key in KNOWN}
            row = done.get(tuple(known.values()))
            if row is None:
                remaining = deadline - time.monotonic()
                if remaining < 5:
                    break
                job = {"file": str(case["make"](folder)), "dims": case["dims"],
                       "precision": case["precision"], "backend": case["backend"],
                       "device": args.device, "braze": program_of(args.braze),
                       "rounds": args.rounds, "seconds": args.seconds, "model_io": model_io,
                       "fusions": fusions} | case.get("more", {})
                row = known | worker.measure(job, min(args.timeout, remaining))
            rows.append(row)
            lines.append(line_of(case, row))
            left.pop(0)
            print(lines[-1], flush=True)
            report()

    with tempfile.TemporaryDirectory(prefix="braze_networks_") as temporary:
        worker = Worker(sys.stderr)
        try:
            measure_all(args.folder or pathlib.Path(temporary), worker)
        finally:
            worker.stop()
    print("\n".join(report()))
    return 1 if left or any("failed" in row for row in rows) else 0
