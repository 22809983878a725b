"""The part of the `cutlass` dialect that all kinds of kernels share.

`ops` (the host program, workspace tensors, the base of device kernels), `nodes` (loads, stores and
computation for each element), `attributes`, `views` (views of operands). The whole dialect is
`mucc.kernels.dialect`.
"""
