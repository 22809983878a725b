"""Mutated sources and random programs through the whole command: `python -m bench.fuzz`."""
