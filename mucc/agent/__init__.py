"""Speed-of-light guidance for optimisation agents: a client of the public interfaces of mucc."""
