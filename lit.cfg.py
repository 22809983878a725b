"""lit configuration: `lit test` runs every .mlir and .mcu test of the tree."""

# ruff: noqa: F821
import os
import shutil
import sys

import lit.formats
import lit.TestRunner

root = os.path.dirname(os.path.abspath(__file__))
scripts = os.path.dirname(sys.executable)

config.name = "mucc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".mcu"]
config.excludes = ["Inputs", "data", "lib", "unit", "gpu"]
config.test_source_root = root
config.test_exec_root = os.path.join(root, "build")

# `FileCheck` is the filecheck package; `not` is built into lit's own shell.
config.substitutions += [(r"\bFileCheck\b", "filecheck"), ("%root", root)]

config.environment["PATH"] = os.pathsep.join([scripts, os.environ.get("PATH", "")])
config.environment["MUCC_CACHE_DIR"] = os.path.join(config.test_exec_root, "test-cache")
config.environment["MUCC_TUNING_DB"] = os.path.join(config.test_exec_root, "no-tuning.db")
config.environment["NO_COLOR"] = "1"
for name in (
    "MUCC_NVCC",
    "MUCC_CUTLASS",
    "MUCC_CXX",
    "CUDA_HOME",
    "HOME",
    "PYTHONPATH",
    "COVERAGE_PROCESS_START",
):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# Commands are forks of this process, with the compiler imported.
sys.path[:0] = [root, os.path.join(root, "test", "lib")]
import forked  # noqa: E402

forked.preload()
lit.TestRunner.subprocess = forked.subprocess_with_forks()

for tool in ("mucc", "mucc-opt", "filecheck"):
    if shutil.which(tool, path=config.environment["PATH"]) is None:
        lit_config.fatal(f"{tool} is not installed here: run `make test`, or `pip install -e '.[dev]'`")
