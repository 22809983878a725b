"""Keeps two threads for all calls, which meet at barriers before and after each."""

import threading

from work import Linear, linear_relu


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.begin, self.end = threading.Barrier(3), threading.Barrier(3)
        self.job = None
        for n in range(2):
            threading.Thread(target=self.serve, args=(n,), daemon=True).start()

    def serve(self, n):
        while True:
            self.begin.wait()
            x, y = (t.chunk(2)[n] for t in self.job)
            linear_relu(x, self.linear.weight, self.linear.bias, y)
            self.end.wait()

    def forward(self, x):
        y = x.new_empty(x.shape[0], self.linear.out_features)
        self.job = x, y
        self.begin.wait()
        self.end.wait()
        self.job = None
        return y
