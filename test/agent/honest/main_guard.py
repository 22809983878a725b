"""Can be run as a program."""

from work import Linear


class ModelNew(Linear):
    pass


if __name__ == "__main__":
    print("see problem.py")
