"""Hands blocks to threads by a queue, and waits for them by a condition."""

import queue
import threading

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.blocks, self.left, self.done = queue.Queue(), 0, threading.Condition()
        for _ in range(2):
            threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            x, y = self.blocks.get()
            linear_relu(x, self.linear.weight, self.linear.bias, y)
            with self.done:
                self.left -= 1
                self.done.notify_all()

    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.out_features, device=x.device)
        starts = range(0, x.shape[0], 16)
        self.left = len(starts)
        for start in starts:
            self.blocks.put((x[start : start + 16], y[start : start + 16]))
        with self.done:
            self.done.wait_for(lambda: not self.left)
        return y
