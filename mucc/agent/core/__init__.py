"""Types and interfaces that the packages of the agent share.

An optimisation of one problem is a `Task`. A `Strategy` (agent/search) yields steps, and the engine executes
them: a `Proposer` (agent/propose) names `Hypothesis`es and writes `Candidate`s, an `Evaluator`
(agent/evaluate) returns an `Outcome` for each, and the store (agent/store) keeps every `Attempt`. The values
are dataclasses that `mucc.files.json_data` converts to JSON and back.
"""
