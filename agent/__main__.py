"""`python -m mucc.agent`: the same as the console script `mucc-agent`."""

from mucc.agent.cli.main import entry

if __name__ == "__main__":
    entry()
