#!/usr/bin/env bash
# Builds the wheel against an installed tree, puts it into a fresh virtual environment, and proves
# that it needs nothing from outside but Python, libc and libstdc++.
#   tools/check_wheel.sh BUILD_DIR
# Uses the Python of VIRTUAL_ENV (.venv without one), which ./setup fills. Leaves in BUILD_DIR/python
# the wheel and the environment venv, which sees the packages of the former for the tests.
set -euo pipefail

build=$(realpath "$1")
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
outer=${VIRTUAL_ENV:-$source/.venv}
work=$build/python
fail() { printf 'check_wheel: %s\n' "$*" >&2; exit 1; }
unset LD_LIBRARY_PATH PYTHONPATH

python=$outer/bin/python
"$python" -c 'import nanobind, pytest, scikit_build_core' 2>/dev/null ||
  fail "nanobind, scikit-build-core or pytest are not in $outer: run ./setup"
mkdir -p "$work"
quietly() { "$@" >"$work/log.txt" 2>&1 || { cat "$work/log.txt" >&2; fail "failed: $1 $2 $3"; }; }

rm -rf "$work/tree" "$work/dist" "$work/venv"
quietly cmake --install "$build" --prefix "$work/tree"
PATH=$outer/bin:$PATH braze_ROOT=$work/tree quietly "$python" -m pip --no-input \
  --disable-pip-version-check wheel --no-deps --no-index --no-build-isolation -w "$work/dist" \
  --config-settings=build-dir="$work/build" \
  --config-settings=cmake.define.BRAZE_WERROR=ON "$source"
wheel=("$work"/dist/braze-*.whl)
quietly "$python" -m venv --without-pip "$work/venv"
quietly "$python" -m pip --python "$work/venv/bin/python" --no-input --disable-pip-version-check \
  install --no-deps --no-index "${wheel[0]}"

# Bare: no numpy, no torch, no onnx.
inner=$work/venv/bin/python
"$inner" -I - <<'END' || fail "the package does not work in an environment of its own"
import importlib.util, pathlib, sys
assert importlib.util.find_spec("numpy") is None
import braze
assert braze.devices()["cpu"]
loaded = {"numpy", "onnx", "torch"} & set(sys.modules)
assert not loaded, loaded
folder = pathlib.Path(braze.__file__).parent
assert (folder / "py.typed").exists() and (folder / "_braze.pyi").exists()
assert any((folder / "licences").iterdir())
try:
    braze.compile("nowhere.onnx")
except braze.ModelError:
    pass
END

system='^(ld-linux.*|linux-vdso|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so'
package=$("$inner" -I -c 'import braze, os; print(os.path.dirname(braze.__file__))')
for object in "$package"/_braze*.so "$package"/lib/*.so*; do
  while read -r name arrow path _; do
    [[ $(basename "$name") =~ $system ]] && continue
    [[ $arrow == '=>' ]] || fail "$object: cannot read what ldd says of $name"
    [[ $path == not ]] && fail "$object needs $name, which is not found"
    [[ $(realpath "$path") == "$(realpath "$package")"/* ]] ||
      fail "$object takes $name from outside: $path"
  done < <(ldd "$object")
done

# For the tests: numpy, onnx, onnxruntime, rapidocr, pytest of the outer environment.
"$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
  >"$(echo "$work"/venv/lib/python3.*/site-packages)/outer.pth"
printf 'check_wheel: fine: %s, %s libraries inside\n' "$(basename "${wheel[0]}")" \
  "$(find "$package/lib" -name '*.so*' | wc -l)"
