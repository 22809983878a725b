"""Confine processes that run untrusted code: namespaces, Landlock, seccomp and limits, layer by layer.

`modes` names the layers, `layers` says which of them this machine allows, `places` what a confined process
may read and write.
"""
