#!/usr/bin/env python3
"""Runs the benchmarks against named peers, one after the other. Options go to each of them."""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BENCHMARKS = ["cpu/networks.py"]

if __name__ == "__main__":
    codes = [subprocess.run([sys.executable, str(HERE / name), *sys.argv[1:]]).returncode
             for name in BENCHMARKS]
    sys.exit(max(codes))
