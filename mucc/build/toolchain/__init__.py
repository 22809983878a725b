"""From C++ to a loadable file: finding nvcc, CUTLASS and the host compiler, and running them.

* `discover`: what is on this machine
* `flags`: how it is compiled
* `nvcc`: `.cu` text to `.so`, `.ptx` or `.cubin`
"""
