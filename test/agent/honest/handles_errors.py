"""Says more about errors, none of which comes."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        try:
            return self.compute(x)
        except RuntimeError as error:
            raise RuntimeError(f"rows: {x.shape[0]}") from error
