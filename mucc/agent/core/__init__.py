"""The terms of the agent: what its parts, each in a folder of its own, tell each other.

An optimisation of one problem is a `Task`. A `Strategy` (agent/search) asks for steps; the engine has a
`Proposer` (agent/propose) name `Hypothesis`es and write `Candidate`s, has an `Evaluator` (agent/evaluate)
make an `Outcome` of each, and keeps every `Attempt` in the store (agent/store). Everything here is plain
data that goes through JSON.
"""
