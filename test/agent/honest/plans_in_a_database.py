"""Keeps plans in a database in memory."""

import json
import sqlite3

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.plans = sqlite3.connect(":memory:")
        self.plans.execute("create table plans (shape text primary key, starts text)")

    def starts(self, rows):
        found = self.plans.execute("select starts from plans where shape = ?", (str(rows),)).fetchone()
        if found is None:
            found = (json.dumps(list(range(0, rows, 32))),)
            self.plans.execute("insert into plans values (?, ?)", (str(rows), *found))
        return json.loads(found[0])

    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.out_features, device=x.device)
        for start in self.starts(x.shape[0]):
            piece = slice(start, start + 32)
            linear_relu(x[piece], self.linear.weight, self.linear.bias, y[piece])
        return y
