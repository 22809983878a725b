"""Contractions against PyTorch: every contender on the same tensors in one run.

* `shapes`: the problems, from layers of real models
* `cases`: the programs, and what PyTorch does for each of them
* `libraries`: the compiled programs, by case, shape and choice of schedule
* `measure`: correctness and times
* `summary`: figures, table and plot
"""
