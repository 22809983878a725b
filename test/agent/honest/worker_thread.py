"""Has one thread of its own that works for as long as the process lives."""

import queue
import threading

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.asked, self.done = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            self.done.put(self.compute(self.asked.get()))

    def forward(self, x):
        self.asked.put(x)
        return self.done.get()
