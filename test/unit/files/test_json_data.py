"""Threads that read data of one type for the first time."""

import subprocess
import sys

READERS = """
import enum, threading
from dataclasses import make_dataclass
from mucc.files.json_data import from_json

def read(kind, barrier):
    barrier.wait()
    assert from_json(kind, {"state": "value1"}).state.value == "value1"

for n in range(60):
    State = enum.Enum(f"State{n}", {f"NAME{k}": f"value{k}" for k in range(200)})
    Row = make_dataclass(f"Row{n}", [("state", State)])
    barrier = threading.Barrier(4)
    threads = [threading.Thread(target=read, args=(Row, barrier)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_may_read_a_new_type_at_once():
    # A switch of threads amid msgspec's first look at an enum is rare: asked for every microsecond here.
    program = f"import sys; sys.setswitchinterval(1e-6)\n{READERS}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
