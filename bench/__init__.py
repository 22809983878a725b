"""Benchmarks: each is one command, `python -m bench.<name>`, and writes results/<card>/<name>.json."""
