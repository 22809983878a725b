"""Counts rows with generators that get values sent."""

import torch
from work import Linear, linear_relu


def rows(count, step):
    done = 0
    while done < count:
        done += (yield slice(done, done + step)) or step


class ModelNew(Linear):
    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.out_features, device=x.device)
        pieces = rows(x.shape[0], 8)
        piece = next(pieces)
        try:
            while True:
                linear_relu(x[piece], self.linear.weight, self.linear.bias, y[piece])
                piece = pieces.send(8)
        except StopIteration:
            return y
