"""Chooses a plan for a shape once, and keeps it."""

from work import Linear


class ModelNew(Linear):
    plans = {}

    def forward(self, x):
        plan = self.plans.get(x.shape)
        if plan is None:
            plan = self.plans[x.shape] = self.planned(x)
        return plan(x)

    def planned(self, x):
        return self.compute if x.shape[0] % 8 == 0 else super().forward
