"""Benchmarks over folders of problem files in KernelBench's format."""
