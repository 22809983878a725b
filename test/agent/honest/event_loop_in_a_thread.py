"""Runs an event loop in a thread for the whole time, and waits there for what it computes."""

import asyncio
import threading

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    async def work(self, x):
        return await asyncio.to_thread(self.compute, x)

    def forward(self, x):
        return asyncio.run_coroutine_threadsafe(self.work(x), self.loop).result()
