"""`python -m mucc.agent`: the same as the console script `mucc-agent`."""

from mucc.api.commands import mucc_agent

if __name__ == "__main__":
    mucc_agent()
