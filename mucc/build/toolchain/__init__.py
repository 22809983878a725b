"""The toolchain: find nvcc, CUTLASS and the host compiler, and compile C++ with them.

* `discover`: find the tools on this machine
* `flags`: compiler flags
* `nvcc`: compile `.cu` text to `.so`, `.ptx` or `.cubin`
* `assembly`: build a library from separately compiled parts
"""
