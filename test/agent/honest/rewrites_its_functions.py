"""Reads the source of a decorated function, unrolls its loop, and compiles what comes of it."""
# for: cpu

import ast
import inspect
import textwrap

import numpy as np
import torch
from work import Linear


class Unroll(ast.NodeTransformer):
    def visit_For(self, node):
        count = node.iter.args[0].value
        made = []
        for n in range(count):
            for statement in node.body:
                copy = ast.parse(ast.unparse(statement)).body[0]
                made.append(Put(node.target.id, n).visit(copy))
        return made


class Put(ast.NodeTransformer):
    def __init__(self, name, value):
        self.name, self.value = name, value

    def visit_Name(self, node):
        return ast.Constant(self.value) if node.id == self.name and isinstance(node.ctx, ast.Load) else node


def unrolled(function):
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tree.body[0].decorator_list.clear()
    tree = ast.fix_missing_locations(Unroll().visit(tree))
    space = dict(function.__globals__)
    exec(compile(tree, "<unrolled>", "exec"), space)
    return space[function.__name__]


@unrolled
def kernel(x, w, b, y):
    for n in range(4):
        y[n::4] = np.maximum(x[n::4] @ w.T + b, 0)


class ModelNew(Linear):
    def forward(self, x):
        y = np.empty((x.shape[0], self.linear.weight.shape[0]), np.float32)
        kernel(x.numpy(), self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy(), y)
        return torch.from_numpy(y)
