"""What all resolved kernels share: the host program, workspace, nodes of kernels, views of operands.

`ops` (the program, and the base of device kernels), `nodes` (what a kernel does for each element),
`attributes`, `views` (how operands are read). The dialect, with all kernels, is `mucc.kernels.dialect`.
"""
