"""Looks for its plan by trying."""

from work import Linear


class ModelNew(Linear):
    plans = {}

    def forward(self, x):
        try:
            plan = self.plans[x.shape]
        except KeyError:
            plan = self.plans[x.shape] = 1
        return self.compute(x) if plan else x
