"""Run optimisations and store every step, so that an interrupted run can go on.

From the outside to the inside: `run` builds the components of a run and starts it; `resume` opens the run's
store, new or begun before; `task_threads` runs the tasks in threads; `task_run` takes one task from its
baselines to its result; `steps` executes the strategy's steps for the task; `rounds` executes the one step
that spends attempts.
"""
