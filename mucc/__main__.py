"""`python -m mucc` is `mucc`."""

from mucc.cli.start import mucc

if __name__ == "__main__":
    mucc()
