#!/usr/bin/env python3
"""Checks that every folder of src/ includes only what CMakeLists.txt lets it use.

The allowed order is read from the braze_layer(NAME USES ...) lines, so that it is written once.
Files directly under src/ may use every layer; include/ and cli/ may use only the public headers
(and cli/ itself). Prints one line per wrong include and exits with 1 if there is any.
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYER = re.compile(r"braze_layer\(\s*(\w+)\s+USES([\w\s]*?)(?:\bLINKS\b[^)]*)?\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
SUFFIXES = {".cpp", ".hpp", ".h", ".cuh", ".cu", ".inc"}


def allowed_uses():
    """Maps each layer to the layers it may include, itself among them."""
    text = (ROOT / "CMakeLists.txt").read_text()
    return {name: {name, *uses.split()} for name, uses in LAYER.findall(text)}


def wrong_includes(path, allowed, layers):
    """Yields (line, message) for each include of `path` that leaves the `allowed` folders."""
    text = path.read_text(errors="replace")
    for match in INCLUDE.finditer(text):
        quote, name = match.groups()
        line = text.count("\n", 0, match.start(2)) + 1
        top = name.split("/")[0]
        if ".." in name.split("/"):
            yield line, f'"{name}" climbs out of its folder: write the path from src/'
        elif quote == '"' and "/" not in name:
            # Files directly under src/ are the path itself: they see each other, no layer sees them.
            if path.parent == ROOT / "src" and (path.parent / name).is_file():
                continue
            yield line, f'"{name}" is relative: write the path from src/'
        elif top in layers and top not in allowed and not (quote == "<" and "/" not in name):
            may = ", ".join(sorted(allowed)) or "the public headers only"
            yield line, f'"{name}" is in layer {top}, which is out of reach here (may use: {may})'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layer", help="check this layer only")
    parser.add_argument("--stamp", type=pathlib.Path, help="touch this file when all is well")
    args = parser.parse_args()

    uses = allowed_uses()
    folders = [(ROOT / "src" / name, uses[name], True) for name in uses]
    if args.layer:
        folders = [f for f in folders if f[0].name == args.layer]
        if not folders:
            parser.error(f"{args.layer} is not a layer; there are {', '.join(uses)}")
    else:
        folders += [(ROOT / "src", set(uses), False), (ROOT / "include", set(), True),
                    (ROOT / "cli", set(), True)]
        unknown = [d.name for d in (ROOT / "src").glob("*/") if d.is_dir() and d.name not in uses]
        if unknown:
            sys.exit(f"src/{unknown[0]}: not a layer; add a braze_layer() line to CMakeLists.txt")

    wrong = 0
    for folder, allowed, deep in folders:
        for path in sorted(folder.rglob("*") if deep else folder.glob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                for line, message in wrong_includes(path, allowed, uses):
                    print(f"{path.relative_to(ROOT)}:{line}: {message}", file=sys.stderr)
                    wrong += 1
    if wrong:
        return 1
    if args.stamp:
        args.stamp.parent.mkdir(parents=True, exist_ok=True)
        args.stamp.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
