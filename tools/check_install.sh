#!/usr/bin/env bash
# Proves that an installed tree can be moved and needs nothing but the C and C++ run time.
#   tools/check_install.sh BUILD_DIR
# Installs BUILD_DIR, moves the tree, runs the program, looks at every library that is loaded, and
# builds a small project that finds the moved tree with find_package(braze).
set -euo pipefail

build=$(realpath "$1")
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'check_install: %s\n' "$*" >&2; exit 1; }
unset LD_LIBRARY_PATH

cmake --install "$build" --prefix "$work/first" >"$work/install.log" || {
  cat "$work/install.log" >&2
  fail "installing failed"
}
mv "$work/first" "$work/moved"
tree=$work/moved

# What may come from outside: the loader, libc with its parts, libstdc++ with libgcc_s.
system='^(ld-linux.*|linux-vdso|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so'
objects=("$tree"/lib/*.so*)
[[ ! -x $tree/bin/braze ]] || objects+=("$tree/bin/braze")
for object in "${objects[@]}"; do
  while read -r name arrow path _; do
    [[ $(basename "$name") =~ $system ]] && continue
    [[ $arrow == '=>' ]] || fail "$object: cannot read what ldd says of $name"
    [[ $path == not ]] && fail "$object needs $name, which is not found"
    [[ $(realpath "$path") == "$tree"/* ]] || fail "$object takes $name from outside: $path"
  done < <(ldd "$object")
done

if [[ -x $tree/bin/braze ]]; then
  env -i "$tree/bin/braze" --help >"$work/help.txt" || fail "braze --help failed after the move"
  grep -qi braze "$work/help.txt" || fail "braze --help printed no help"
fi

if grep -rlF -e "$work/first" -e "$build" -e "$source" "$tree/lib/cmake" "$tree/include"; then
  fail "the files above name folders of the machine that built them"
fi

cmake -S "$source/tests/install" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$tree" \
  -DCMAKE_BUILD_TYPE=Release >"$work/consumer.log" 2>&1 &&
  cmake --build "$work/consumer" >>"$work/consumer.log" 2>&1 || {
  cat "$work/consumer.log" >&2
  fail "a project that uses find_package(braze) does not build"
}
env -i "$work/consumer/consumer" || fail "the program built against the tree does not run"

printf 'check_install: fine: %d libraries in lib/, nothing from outside but libc and libstdc++\n' \
  "$(find "$tree/lib" -maxdepth 1 -type f -name '*.so*' | wc -l)"
