# Front door to CMake: every target does the set-up that it needs. `make help` lists them.

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
PYTHON := .venv/bin/python

.DEFAULT_GOAL := build
.PHONY: help build test demo install lint format asan bench clean setup setup-build

help:
	@echo 'make          build the library and the command line into build/release'
	@echo 'make demo     read text on pictures with joined convolutions, beside ONNX Runtime'
	@echo 'make test     lint, build and test (build/dev)'
	@echo 'make install  install a relocatable tree into PREFIX ($(PREFIX))'
	@echo 'make lint     clang-format, includes between layers, clang-tidy'
	@echo 'make format   let clang-format rewrite the sources'
	@echo 'make asan     build and test with address and undefined-behaviour sanitizers'
	@echo 'make bench    time against ONNX Runtime and other peers'
	@echo 'make clean    remove build/ (the Python environment .venv stays)'

setup:
	@./setup
setup-build:
	@./setup --build-only

build/%/build.ninja:
	cmake --preset $*

build: setup-build
	@$(MAKE) --no-print-directory build/release/build.ninja
	cmake --build build/release -j $(JOBS)

# The quick checks come first and the tests last, so that the output ends with their summary.
test: setup
	@$(MAKE) --no-print-directory build/dev/build.ninja
	tools/lint.py --format --layers
	cmake --build build/dev -j $(JOBS)
	tools/lint.py --tidy -j $(JOBS)
	VIRTUAL_ENV='$(CURDIR)/.venv' ctest --test-dir build/dev --output-on-failure -j $(JOBS)

demo: setup build
	$(PYTHON) demo/demo.py --braze build/release/bin/braze

install: build
	cmake --install build/release --prefix '$(PREFIX)'

lint: setup
	@$(MAKE) --no-print-directory build/dev/build.ninja
	cmake --build build/dev --target braze_onnx_proto -j $(JOBS)
	tools/lint.py -j $(JOBS)

format: setup
	tools/lint.py --fix

asan: setup
	@$(MAKE) --no-print-directory build/asan/build.ninja
	cmake --build build/asan -j $(JOBS)
	VIRTUAL_ENV='$(CURDIR)/.venv' ctest --test-dir build/asan --output-on-failure -j $(JOBS)

bench: setup build
	$(PYTHON) bench/bench.py --braze build/release/bin/braze

clean:
	rm -rf build
