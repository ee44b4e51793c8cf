#!/usr/bin/env python3
"""Lints the sources: clang-format, the includes between layers, clang-tidy.

Without a choice all three run. clang-tidy takes seconds a file, so what was found clean is
remembered in build/lint and asked again only when the file, a header of ours that it includes,
its compile command or .clang-tidy changes.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMATTED = ("src", "include", "cli", "python", "tests", "bench")
TIDIED = ("src", "cli")
CACHE = ROOT / "build" / "lint"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def formatted_files():
    return [str(path.relative_to(ROOT)) for folder in FORMATTED
            for path in sorted((ROOT / folder).rglob("*"))
            if path.suffix in {".cpp", ".hpp", ".h", ".cu", ".cuh"}]


def check_format(fix):
    files = formatted_files()
    if not files:
        return True
    if fix:  # twice: breaking a long comment leaves text that a second pass aligns
        run("clang-format-19", "-i", *files)
        run("clang-format-19", "-i", *files)
    result = run("clang-format-19", "--dry-run", "-Werror", *files)
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error: code should be", result.stderr,
                                  re.MULTILINE)))
    for name in wrong:
        print(f"{name}: not as clang-format has it (make format)", file=sys.stderr)
    if result.returncode and not wrong:
        sys.stderr.write(result.stderr)
    return result.returncode == 0


def check_layers():
    result = run(sys.executable, "tools/check_layers.py")
    sys.stderr.write(result.stderr)
    return result.returncode == 0


def our_headers(path, seen):
    """Adds to `seen` the file and all files of ours that it includes, however deep."""
    if path in seen:
        return seen
    seen.add(path)
    for name in INCLUDE.findall(path.read_text(errors="replace")):
        for folder in ("src", "include", "."):
            header = ROOT / folder / name
            if header.is_file():
                our_headers(header, seen)
                break
    return seen


def tidy_key(entry, version):
    digest = hashlib.sha256()
    digest.update((version + entry["command"]).encode())
    digest.update((ROOT / ".clang-tidy").read_bytes())
    for path in sorted(our_headers(pathlib.Path(entry["file"]), set())):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def tidy_one(entry, build_dir, version):
    stamp = CACHE / tidy_key(entry, version)
    if stamp.exists():
        return True
    result = run("clang-tidy-19", "-p", str(build_dir), "--quiet", entry["file"])
    if result.returncode:
        print(result.stdout, result.stderr, sep="", file=sys.stderr)
        return False
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp.touch()
    return True


def check_tidy(build_dir, jobs):
    database = ROOT / build_dir / "compile_commands.json"
    if not database.exists():
        sys.exit(f"lint: {build_dir} is not configured (make lint does it)")
    roots = [str(ROOT / folder) + os.sep for folder in TIDIED]
    entries = {entry["file"]: entry for entry in json.loads(database.read_text())
               if any(entry["file"].startswith(root) for root in roots)}
    version = run("clang-tidy-19", "--version").stdout
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        clean = list(pool.map(lambda e: tidy_one(e, ROOT / build_dir, version), entries.values()))
    print(f"lint: clang-tidy: {len(clean)} files, {clean.count(False)} with findings")
    return all(clean)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--format", action="store_true", help="clang-format only")
    parser.add_argument("--layers", action="store_true", help="includes between layers only")
    parser.add_argument("--tidy", action="store_true", help="clang-tidy only")
    parser.add_argument("--fix", action="store_true", help="let clang-format rewrite the files")
    parser.add_argument("-p", "--build-dir", default="build/dev", help="for clang-tidy")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()

    chosen = args.format or args.layers or args.tidy or args.fix
    fine = True
    if args.format or args.fix or not chosen:
        fine &= check_format(args.fix)
    if args.layers or not chosen:
        fine &= check_layers()
    if args.tidy or not chosen:
        fine &= check_tidy(args.build_dir, args.jobs)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
