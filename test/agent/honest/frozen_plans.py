"""Keeps plans of frozen data classes with slots, keyed by what they depend on."""

from dataclasses import dataclass, field

from work import Linear, linear_relu


@dataclass(frozen=True, slots=True)
class Key:
    rows: int
    inputs: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Plan:
    key: Key
    pieces: tuple = field(default=())


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.plans = {}

    def planned(self, x):
        key = Key(*x.shape, str(x.dtype))
        if key not in self.plans:
            half = x.shape[0] // 2
            self.plans[key] = Plan(key, (slice(0, half), slice(half, None)))
        return self.plans[key]

    def forward(self, x):
        y = x.new_empty(x.shape[0], self.linear.out_features)
        for piece in self.planned(x).pieces:
            linear_relu(x[piece], self.linear.weight, self.linear.bias, y[piece])
        return y
