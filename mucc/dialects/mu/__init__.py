"""The `mu` dialect: tensor programs over named dims.

`types` (tensors and layouts), `rules` and `index_rules` (the type rules), `ops` (the operations, a file for
each kind), `schedule` (what a user may pin), `interpreter` (the meaning, in float64), `dialect` (all of
it, for xDSL's tools). Importing this package loads none of them.
"""
