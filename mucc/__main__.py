"""`python -m mucc` is `mucc`."""

from mucc.cli.main import entry

if __name__ == "__main__":
    entry()
