"""The `mu` dialect: tensor programs over named dims.

`types` (tensors and layouts), `rules` and `*_rules` (the type rules), `ops` (the operations, a file for each
kind), `schedule` and `settings` (pinned schedules), `interpreter` (semantics in float64), `dialect` (the
whole, for xDSL's tools). Importing this package loads none of them.
"""
