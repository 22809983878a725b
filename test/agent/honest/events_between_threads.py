"""A thread that waits by epoll for a counter of the system to be raised."""

import os
import select
import threading

from work import Linear


class ModelNew(Linear):
    ready = False

    def start(self):
        self.begin, self.end = os.eventfd(0), os.eventfd(0)
        threading.Thread(target=self.loop, daemon=True).start()
        self.ready = True

    def loop(self):
        poll = select.epoll()
        poll.register(self.begin, select.EPOLLIN)
        while True:
            poll.poll()
            os.eventfd_read(self.begin)
            self.y = self.compute(self.x)
            os.eventfd_write(self.end, 1)

    def forward(self, x):
        if not self.ready:
            self.start()
        self.x = x
        os.eventfd_write(self.begin, 1)
        os.eventfd_read(self.end)
        return self.y
