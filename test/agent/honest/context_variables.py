"""Keeps settings and a workspace in context variables."""

from contextvars import ContextVar, copy_context

import torch
from work import Linear

rows_at_once = ContextVar("rows_at_once", default=32)
workspace = ContextVar("workspace", default=None)


class ModelNew(Linear):
    def forward(self, x):
        return copy_context().run(self.blocks, x)

    def blocks(self, x):
        rows_at_once.set(16)
        if workspace.get() is None:
            workspace.set(x.new_empty(rows_at_once.get(), self.linear.weight.shape[0]))
        parts = []
        for part in x.split(rows_at_once.get()):
            parts.append(self.compute(part, workspace.get()[: part.shape[0]]).clone())
        return torch.cat(parts)
