# `make` lists what can be made. Everything happens in a virtual environment of its own, .venv.

SHELL   := /bin/bash
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
STAMPS  := build/stamps

export PATH := $(abspath $(BIN)):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# A thousand processes that tests start would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format lit pytest matrix torch-matrix modules bench fuzz fuzz-gpu docs site vsix clean

help: ## list the targets
	@echo "usage: make TARGET [PYTHON=python3.12]"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1	\2/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(STAMPS)/nvcc ## set up .venv, compile examples/linear_gelu.mcu, run and check it
	@mkdir -p build
	mucc examples/linear_gelu.mcu -o build/linear_gelu.so --verbose
	mucc run examples/linear_gelu.mcu --dims M=512,N=512,K=512

test: $(STAMPS)/torch ## set up .venv, then lint, lit, pytest but for long tests, and a share of matrix
	@python test/tools/run_all.py

test-all: $(STAMPS)/torch ## the same with long tests and all examples: real builds of CUTLASS kernels, more PyTorch modules
	@python test/tools/run_all.py --all
test-all: $(STAMPS)/docs

lint: $(STAMPS)/dev ## ruff, its formatter, pyright, and the directions of imports
	ruff check
	ruff format --check
	pyright
	lint-imports

format: $(STAMPS)/dev ## lay the sources out, and mend what ruff can mend
	ruff check --fix
	ruff format

lit: $(STAMPS)/dev ## the FileCheck tests
	lit -sv test

pytest: $(STAMPS)/torch ## the unit tests, long ones among them
	pytest -n auto --dist loadscope --no-loadscope-reorder

# As many Pythons as there are: make matrix PYTHONS="python3.11 python3.14"
PYTHONS ?= $(PYTHON)
matrix: $(STAMPS)/torch ## install the wheel and the sdist by pip and uv, in fresh environments, and run them
	python test/tools/install_matrix.py $(PYTHONS:%=--python %) --torch --nvcc

modules: $(STAMPS)/torch ## all odd PyTorch modules through the importer and the backend (tests take a share)
	MUCC_ALL_MODULES=1 pytest -n auto test/unit/torch/test_modules.py

# Where no index has builds for the CPU: make torch-matrix BUILDS=--cuda
BUILDS ?=
torch-matrix: $(STAMPS)/dev ## the tests of importer and backend with the last three minor versions of PyTorch
	python test/tools/torch_matrix.py $(BUILDS)

bench: $(STAMPS)/dev ## measure the speed of the command line (bench/compile)
	python -m bench.compile
	python -m bench.report

fuzz: $(STAMPS)/dev ## 100,000 mutated sources and 3,000 random programs through the whole command (bench/fuzz)
	python -m bench.fuzz --nvcc 100 -o build/fuzz.jsonl --record

fuzz-gpu: $(STAMPS)/dev ## build random programs, run them on this GPU, compare (bench/gpu_fuzz)
	python -m bench.gpu_fuzz

docs: $(STAMPS)/dev ## write the pages, figures and grammars of editors that are made from the compiler and from results
	mucc docs --errors > build/errors.md && mv build/errors.md docs/errors.md
	python -m mucc.editor.grammars
	python -m bench.figures

site: $(STAMPS)/docs ## build the documentation site strictly, build/site (mucc[docs])
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

vsix: ## build the extension for VS Code, editors/vscode/mucc.vsix (needs npm)
	@command -v npm >/dev/null || { echo "npm is missing: apt-get install npm"; exit 1; }
	cd editors/vscode && npm install --no-audit --no-fund --no-package-lock && npm run package

clean: ## remove what was made here, but for .venv
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find mucc test bench -name __pycache__ -type d -prune -exec rm -rf {} +

# Setting up. A stamp is as old as the last successful installation for the present pyproject.toml.

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "mucc needs Python 3.11 or newer: there is no '$(PYTHON)'"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "mucc needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1)."; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "cannot make a virtual environment: try apt-get install python3-venv"; exit 1; }

$(STAMPS)/nvcc: pyproject.toml | $(BIN)/python
	@command -v g++ >/dev/null || { echo "a C++ compiler is missing: apt-get install g++"; exit 1; }
	@mkdir -p $(STAMPS)
	python -m pip install -q -e '.[nvcc]' $(CONSTRAINTS)
	@touch $@

# A fresh environment gets the CUDA release that was measured; one with a toolkit keeps it, since PyTorch may be built for it.
CONSTRAINTS = $(shell $(BIN)/python -m pip show -q cuda-toolkit 2>/dev/null || echo -c constraints.txt)

$(STAMPS)/dev: pyproject.toml $(STAMPS)/nvcc
	python -m pip install -q -e '.[dev]'
	@touch $@

$(STAMPS)/docs: pyproject.toml $(STAMPS)/dev
	python -m pip install -q -e '.[docs]'
	@touch $@

# Calls are tested with torch tensors. Without a GPU a build for the CPU is enough; a version that ends in +cpu is never one
# with gigabytes of CUDA, wherever pip finds it. With a GPU it is for the user to choose a build.
TORCH := 2.13.0
GPU   ?= $(wildcard /dev/nvidiactl)

$(STAMPS)/torch: $(STAMPS)/dev
	@if python -c 'import torch' 2>/dev/null; then touch $@; \
	elif [ -n "$(GPU)" ]; then \
	  echo "torch is missing: what needs it is skipped, the tests on the GPU among it."; \
	  echo "It is left to you since it is large: $(BIN)/pip install torch"; \
	elif echo "installing torch $(TORCH) for the CPU" && python -m pip install -q --retries 1 --timeout 15 \
	  'torch==$(TORCH)+cpu' --extra-index-url https://download.pytorch.org/whl/cpu; then touch $@; \
	else \
	  echo "no build of torch for the CPU can be had: what needs it is skipped."; \
	  echo "To have it: $(BIN)/pip install torch, then make $(MAKECMDGOALS) again"; \
	fi
