"""MU7235 to MU7259: models that propose, and tools for other agents."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU7235": CodeInfo(
        "a package for models or tools is missing",
        """
Proposers that ask models, and the tools for other agents, need packages that mucc itself does not.

```
$ mucc-agent optimize mlp.py --proposer openai --model gpt-6-luna
error[MU7235]: this needs the package openai
```

`pip install 'mucc[agent]'` installs them. `--proposer offline` needs none.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7236": CodeInfo(
        "the environment holds no key",
        """
Keys are read from the environment alone: OPENAI_API_KEY, ANTHROPIC_API_KEY, or the variable that `--key-env`
names. They are never stored, nor shown. An endpoint of one's own (`--base-url`) that speaks OpenAI's protocol
may go without one.

```
$ mucc-agent optimize mlp.py --proposer anthropic --model claude-haiku-5-5
error[MU7236]: the variable ANTHROPIC_API_KEY holds no key
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7237": CodeInfo(
        "the endpoint refuses the key",
        """
It answered with status 401 or 403: the key is wrong, was withdrawn, or does not permit the model. Trying
again would not help, so the run stops; what was measured is kept.

```
$ OPENAI_API_KEY=wrong mucc-agent optimize mlp.py --proposer openai --model gpt-6-luna
error[MU7237]: openai:gpt-6-luna: the endpoint refuses the key (401): Incorrect API key provided
```

Set the variable to a key of the provider that `--base-url` leads to, and start the same command again.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7238": CodeInfo(
        "the endpoint knows no such model",
        """
It answered with status 404: the model is called differently there, the key does not reach it, or the base URL
lacks a part of its path (OpenAI's ends in `/v1`, Anthropic's does not).

```
$ mucc-agent optimize mlp.py --proposer openai --model gpt-lunar
error[MU7238]: openai:gpt-lunar: the endpoint knows no model 'gpt-lunar', or lies elsewhere (404)
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7239": CodeInfo(
        "a base URL is invalid, or holds a key",
        """
`--base-url` is the address of an endpoint, without a user, a password or parameters: it is stored with the
run, and keys must not be.

```
$ mucc-agent optimize mlp.py --proposer openai --model m --base-url https://me:secret@models.example/v1
error[MU7239]: a base URL must hold neither a user, a password nor parameters
```

Keep the key in a variable of the environment, which `--key-env` names.
""",
        status=ExitStatus.USAGE,
    ),
    "MU7240": CodeInfo(
        "the endpoint is busy or failing",
        """
It limits the rate of calls (429), is overloaded (529) or fails (5xx), and went on to do so in all further
tries (`--retries`), each after a longer pause, or after the one that it asked for (Retry-After).

```
$ mucc-agent optimize mlp.py --proposer openai --model gpt-6-luna
error[MU7240]: openai:gpt-6-luna: the endpoint is busy or failing (429): Rate limit reached
```

Start the same command again later: it goes on where it was.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7241": CodeInfo(
        "a model did not answer in time",
        """
No token came, tokens ceased, or the whole answer took too long; twice in a row this ends the question.

```
$ mucc-agent optimize mlp.py --proposer openai --model big --base-url http://localhost:8000/v1
error[MU7241]: openai:big: no token came within 600 s
```

Give more time with `--first-token-timeout`, `--silence-timeout` or `--call-timeout`, or take a faster model.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7242": CodeInfo(
        "the connection to a model failed",
        """
The endpoint cannot be reached, or the connection broke in the midst of an answer, in all further tries.

```
$ mucc-agent optimize mlp.py --proposer openai --model m --base-url http://localhost:9/v1
error[MU7242]: openai:m: the connection failed: ConnectError: [Errno 111] Connection refused
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7243": CodeInfo(
        "the endpoint does not speak the protocol",
        """
What it answers is no stream of events as the protocol has them: `openai` speaks chat completions, `anthropic`
messages. Often the base URL leads to a web page, or lacks a part of its path.

```
$ mucc-agent optimize mlp.py --proposer openai --model m --base-url https://models.example
error[MU7243]: openai:m: the endpoint speaks no chat completions: it answers with 'text/html'
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7244": CodeInfo(
        "the endpoint rejects the request",
        """
It answered with status 400 or the like, and says why: the prompt may be longer than the model takes (see
`--context`), or an option does not go with it (`--temperature`, `--answer-tokens`, `--no-tools`). Parts of a
request that an endpoint is known to reject are left out without asking.

```
$ mucc-agent optimize mlp.py --proposer openai --model small --context 64000
error[MU7244]: openai:small: the endpoint rejects the request (400): maximum context length is 8192 tokens
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7245": CodeInfo(
        "a model's answer cannot be read",
        """
It is neither a call of the tool that was offered, nor holds a fenced block in the form that was asked for;
the model was told what is wrong, and did no better (`--repairs`). The calls with their answers are in the
run.

```
$ mucc-agent optimize mlp.py --proposer command --command 'echo hello'
error[MU7245]: there is neither a call of the tool "nominate" nor a ```json block
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7246": CodeInfo(
        "a model refuses to answer",
        """
The model, or a filter of its provider, declined the question. The run goes on with the next one.

```
$ mucc-agent optimize mlp.py --proposer openai --model cautious
error[MU7246]: the model refuses to answer: I cannot help with that
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7247": CodeInfo(
        "a model's answer is empty",
        """
It ended without a word, often because all tokens of the answer went into thinking. More of them may help.

```
$ mucc-agent optimize mlp.py --proposer openai --model thinker --answer-tokens 1024
error[MU7247]: the model's answer is empty
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7248": CodeInfo(
        "the command of a proposer failed",
        """
`--command` is a program with its arguments, without a shell. It gets a prompt on stdin and answers on
stdout; a status other than 0, too much output, and a program that is not there are failures.

```
$ mucc-agent optimize mlp.py --proposer command --command 'ask-a-model --quiet'
error[MU7248]: there is no program 'ask-a-model'
```

For a pipeline write `--command "sh -c '... | ...'"`.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7249": CodeInfo(
        "a prompt does not fit",
        """
The reference card, the imported program and its speed of light are needed in each prompt, and take more
tokens than `--context` allows. What else would be told is left out before this.

```
$ mucc-agent optimize mlp.py --proposer openai --model small --context 2000
error[MU7249]: the prompt needs 1910 tokens more than --context 2000 allows
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7250": CodeInfo(
        "prices cannot be read",
        """
`--price IN,OUT[,CACHED]` are US dollars for a million tokens. `--prices` names a TOML file like mucc's own
list:

```
[[provider]]
name = "ours"
[provider.models]
our-model = { input = 0.5, output = 2.0, cached = 0.05 }
```

A model that is in no list costs nothing known: tables show a dash.
""",
        status=ExitStatus.USAGE,
    ),
    "MU7251": CodeInfo(
        "a path leads out of the folder of a server",
        """
`mucc-agent mcp` reads and writes files within one folder: `--root`, by default the one that it is started
in. Links are followed before a path is judged.

```
{"name": "check", "arguments": {"path": "../other/mlp.mcu"}}
error[MU7251]: '../other/mlp.mcu' lies outside of the folder that this server works in
```

Give a path within it, the program itself as `source`, or start the server with another `--root`.
""",
        status=ExitStatus.USAGE,
    ),
    "MU7252": CodeInfo(
        "a tool's command was stopped",
        """
A call of `mucc-agent mcp` has so many seconds (`--time-limit`), and may answer 1 MiB.

```
{"name": "tune", "arguments": {"path": "mlp.mcu", "budget": 200}}
error[MU7252]: the command did not end within 900 s
```

What was built and measured is kept: the same call goes on where it was.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7253": CodeInfo(
        "the account has no credit left",
        """
The provider answered that the quota is used up (402, or 429 with `insufficient_quota`). Waiting does not
help.

```
$ mucc-agent optimize mlp.py --proposer openai --model gpt-6-luna
error[MU7253]: openai:gpt-6-luna: the account has no credit left (429): You exceeded your current quota
```

What was measured is kept: the same command goes on where it was.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7254": CodeInfo(
        "a model's program is rejected before an attempt",
        """
mucc rejects it, its kernels have other names, arguments or results than the imported ones, or it was tried
before. The model was told and could mend it (`--repairs`); none of this costs an attempt. The code stands
with the call in the run.

```
The program with the change 'larger tiles':
mucc rejects the program:
- MU3001 line 6, column 12: tile M = 100 is not a multiple of 64, as the pingpong mainloop needs
```
""",
    ),
}
