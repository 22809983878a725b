"""The store of a run: one SQLite file with everything that happens in the run, durable once written."""

from mucc.agent.store.records import Document, RunInfo, StepRecord, TaskRecord, TaskState
from mucc.agent.store.store import Store

__all__ = ["Document", "RunInfo", "StepRecord", "Store", "TaskRecord", "TaskState"]
