"""Sets the locale when it is loaded, and formats numbers by it."""

import locale

from work import Linear

locale.setlocale(locale.LC_ALL, "C")


class ModelNew(Linear):
    def forward(self, x):
        self.label = locale.format_string("%d rows", x.shape[0], grouping=True)
        return self.compute(x)
