"""Has functools keep workspaces and plans by shapes and types, and copies results out of them."""

import functools
from typing import NamedTuple

import torch
from work import Linear


class Plan(NamedTuple):
    rows: int
    columns: int
    dtype: torch.dtype
    device: torch.device


@functools.cache
def workspace_of(plan):
    return torch.zeros(plan.rows, plan.columns, dtype=plan.dtype, device=plan.device)


@functools.cache
def plan_for(shape, columns, dtype, device):
    return Plan(shape[0], columns, dtype, device)


class ModelNew(Linear):
    @functools.cached_property
    def columns(self):
        return self.linear.weight.size(0)

    def forward(self, x):
        plan = plan_for(tuple(x.shape), self.columns, x.dtype, x.device)
        return self.compute(x, workspace_of(plan)).clone()
