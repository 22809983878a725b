"""The run store: everything that happens in a run, in one SQLite file, each piece there for good once
stored."""

from mucc.agent.store.records import Document, RunInfo, StepRecord, TaskRecord, TaskState
from mucc.agent.store.store import Store

__all__ = ["Document", "RunInfo", "StepRecord", "Store", "TaskRecord", "TaskState"]
