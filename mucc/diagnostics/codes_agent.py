"""MU72: runs of the agent."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU7201": CodeInfo(
        "a file is no run of mucc-agent",
        """
A run is kept in `run.db`, a database of SQLite, in the folder that `-o` names. This file is another
database, or is damaged; SQLite's message says which.

```
$ mucc-agent report notes.db
error[MU7201]: notes.db is no run of mucc-agent
```

Name the folder of a run. A damaged one can often be saved by `sqlite3 run.db .recover`.
""",
    ),
    "MU7202": CodeInfo(
        "a run was made by a newer mucc",
        """
The tables of a run have a version, and this mucc does not know it.

```
$ mucc-agent report runs/mlp
error[MU7202]: runs/mlp/run.db was made by a newer mucc
```

Use the mucc that made it, or a newer one.
""",
    ),
    "MU7203": CodeInfo(
        "a run cannot be opened or written",
        """
There is no run at the path, the disk is full, or permissions are missing; the message says which. What was
stored before is kept.

```
$ mucc-agent report runs/none
error[MU7203]: there is no run at runs/none/run.db
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7204": CodeInfo(
        "another process works on the run",
        """
Only one `mucc-agent optimize` may continue a run at a time. `mucc-agent report` may look at it meanwhile.

```
$ mucc-agent optimize mlp.py -o runs/mlp
error[MU7204]: another process keeps runs/mlp/run.db locked
```

Wait for the other one, or end it; or choose another folder with `-o`.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7205": CodeInfo(
        "there is no run to go on with",
        """
`mucc-agent optimize -o RUN` without a problem goes on with the run in the folder RUN, and there is none.

```
$ mucc-agent optimize -o runs/mlp
error[MU7205]: runs/mlp holds no run, and no problem is named
```

Name the problem files, or folders of them: `mucc-agent optimize mlp.py -o runs/mlp`.
""",
        status=ExitStatus.USAGE,
    ),
    "MU7206": CodeInfo(
        "a run was begun with other options",
        """
A run goes on with the options that it was begun with: others would make another search of it, whose results
would not belong together. Only `-j`, `--time`, `--tokens`, `--cost` and `--total` may change.

```
$ mucc-agent optimize mlp.py -o runs/mlp --strategy mcts
error[MU7206]: the run was begun with other options: strategy is mantis, not mcts
```

Leave the options out to go on with the run's own, or begin another run in another folder.
""",
        status=ExitStatus.USAGE,
    ),
    "MU7207": CodeInfo(
        "there is no such strategy or constant",
        """
`--constants` sets constants of the strategy by name; docs/agent.md lists them.

```
$ mucc-agent optimize mlp.py -o runs/mlp --strategy mcts --constants exploraton=1
error[MU7207]: there is no constant of mcts 'exploraton'
  help: did you mean 'exploration'?
```
""",
        status=ExitStatus.USAGE,
    ),
    "MU7208": CodeInfo(
        "the steps of a run are not those of its strategy",
        """
A run that goes on takes its strategy through the steps that are kept. This mucc's strategy would have taken
others, so it is not the one that began the run.

```
$ mucc-agent optimize -o runs/mlp
error[MU7208]: gemm/square: step 3 was Nominate {'parent': 2, 'count': 4}, and now would be …
```

Go on with the mucc that began the run, or begin another one. What there is stays readable.
""",
    ),
    "MU7210": CodeInfo(
        "there is no GPU to optimise on",
        """
Attempts are run and timed on the card that they are for. Nothing was begun.

```
$ mucc-agent optimize mlp.py -o runs/mlp
error[MU7210]: there is no GPU to optimise on: no NVIDIA driver
```

Run it where the card is. `mucc doctor` shows what was found; `mucc import` and `mucc sol` need no GPU.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7212": CodeInfo(
        "no process can be started",
        """
Problem files and candidates run in processes of their own, which are forked from one that has loaded torch.
That one has ended, or cannot fork, most often for lack of memory; what it printed last is shown.

```
$ mucc-agent optimize problems -o runs/all
error[MU7212]: the process that forks others has ended
```

Fewer jobs (`-j`) take less memory.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7213": CodeInfo(
        "this machine does not allow to confine processes",
        """
With `--isolation required` candidates run only where namespaces, Landlock and seccomp all hold: without
network, with no file of the user and no other process in sight. This machine lacks one of them, most often
because a container forbids namespaces.

```
$ mucc-agent audit mlp.py candidate.py --isolation required
error[MU7213]: this machine does not allow to confine processes by namespaces
```

`--isolation best`, which is the default, takes the layers that there are; every verdict names them, and
`mucc doctor` shows them. In a container, `--security-opt seccomp=unconfined` or a newer runtime allows
namespaces.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7214": CodeInfo(
        "the machine was too busy",
        """
A limit of time does not count what other work takes: waits for processors that others have, and for disks.
Where a process has had too little of ten times its limit, it is stopped, and nothing is said about what it
ran.

```
$ mucc-agent optimize mlp.py -o runs/mlp
error[MU7214]: the process that ran mlp.py did not end within 3000 s, 2800 s of which …
```

Try again when the machine does less.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7230": CodeInfo(
        "there is no such proposer",
        """
Candidates come from a proposer: `offline` needs no network, `openai` and `anthropic` ask a model, `command`
runs a program of yours.

```
$ mucc-agent optimize mlp.py --proposer ofline
error[MU7230]: there is no proposer 'ofline'
  = help: did you mean 'offline'?
```
""",
    ),
    "MU7231": CodeInfo(
        "the offline proposer cannot read a program",
        """
The offline proposer starts from the program of an attempt, or from the imported one, and mucc rejects both:
it has no kernels for it, or it has errors.

```
error[MU7231]: the compiler does not take the program of mlp/gpt2
```

`mucc check` of the imported program says why.
""",
    ),
    "MU7260": CodeInfo(
        "a program to profile cannot be built",
        """
`mucc-agent profile` builds the program first, and the build failed; the notes are the build's messages.

```
$ mucc-agent profile kernel.mcu --dims M=4096
error[MU7260]: 'kernel.mcu' cannot be built
```

`mucc kernel.mcu -o kernel.so` shows the whole story. `--no-build` reads only what the compiler says, and
`--library kernel.so` takes a library that was built before.
""",
    ),
    "MU7261": CodeInfo(
        "nothing of a problem is compiled, so there is nothing to profile",
        """
mucc compiles none of the operations of the problem file; all stay with PyTorch.

```
$ mucc-agent profile sort.py
error[MU7261]: there is nothing to profile: mucc compiles nothing of 'sort.py' (aten.sort.default)
```

`mucc import sort.py` says why, operation by operation.
""",
    ),
    "MU7270": CodeInfo(
        "there is nothing to replay",
        """
`mucc-agent replay` looks where stop rules would have ended searches, and none of the runs that were named has
an attempt: they were ended before, or mucc had no kernels for any of their problems.

```
$ mucc-agent replay runs/sorting
error[MU7270]: there is no attempt in runs/sorting: nothing to replay
```

Name runs with attempts; `mucc-agent report RUN --text` shows how many each task has.
""",
    ),
}
