"""The machines of a Ray cluster as builders: what one machine does in processes, they do in tasks.

Ray is an optional package, imported where an address is given (`--ray`, MUCC_RAY) and nowhere else.
"""
