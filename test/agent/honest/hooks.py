"""Has a hook that looks at the result."""

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.shapes = []
        self.register_forward_hook(lambda module, args, y: self.shapes.append(tuple(y.shape)))
