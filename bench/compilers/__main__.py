"""One compiler in a process of its own: `python -m bench.compilers NAME CACHE_DIR [--cold]` prints JSON.

Without --cold it compiles all variants one after another and checks what each gives; with it, the first one
alone, so that the life of the process is a cold compilation.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from typing import Any

from bench.compilers import RIVALS
from bench.compilers.problem import VARIANTS, error, tensors


def main() -> None:
    """Compile, check, and print the seconds and the errors of each variant."""
    parser = argparse.ArgumentParser(prog="bench.compilers", description=__doc__)
    parser.add_argument("name", choices=RIVALS)
    parser.add_argument("cache_dir")
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    module, settings = RIVALS[options.name]
    compiler: Any = importlib.import_module(f"bench.compilers.{module}")
    tensors()  # torch and the GPU's context are there before anything is timed
    started = time.perf_counter()
    seconds: list[float] = [compiler.compile_once(0, options.cache_dir, **settings)]
    # What the first call took besides: importing the compiler.
    import_s = time.perf_counter() - started - seconds[0]
    errors: list[float] = []
    if not options.cold:
        errors.append(error(0, compiler.launch(0, **settings)))
        for variant in range(1, len(VARIANTS)):
            seconds.append(compiler.compile_once(variant, options.cache_dir, **settings))
            errors.append(error(variant, compiler.launch(variant, **settings)))
    print(json.dumps({"import_s": import_s, "seconds": seconds, "errors": errors}))


if __name__ == "__main__":
    main()
