"""`mucc completion SHELL`: print a completion script for a shell, and answer the queries of that script.

The script runs the tool by click's protocol: an environment variable names the shell, and COMP_WORDS and
COMP_CWORD have the words of the line. Each candidate is printed as one line, for zsh as three lines.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from click import shell_completion as shells

from mucc.cli.command import Group, command
from mucc.cli.parameters import argument
from mucc.compiler import files
from mucc.diagnostics.core import ExitStatus
from mucc.diagnostics.usage import usage_error

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mucc.cli.registry import Tool
    from mucc.cli.reporting import Reporter

DESCRIPTION = "Print a script that completes commands, options, their values and names of files in a shell."

EPILOG = """\
bash   in ~/.bashrc:                   eval "$(mucc completion bash)"
zsh    in ~/.zshrc, after compinit:    eval "$(mucc completion zsh)"
fish   run once:                       mucc completion fish > ~/.config/fish/completions/mucc.fish

`mucc-agent completion` does the same for mucc-agent."""

BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            file | dir)
                if [[ $value == "~/"* ]]; then
                    printf -v value '~/%%q' "${value#\\~/}"
                else
                    printf -v value '%%q' "$value"
                fi
                ;;
        esac
        COMPREPLY+=("$value")
    done < <(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" \
%(complete_var)s=bash_complete "$1" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace
    fi
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain described folders
    local type value help
    (( $+commands[%(prog_name)s] )) || return 1
    for type value help in "${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \
%(complete_var)s=zsh_complete %(prog_name)s 2>/dev/null)}"; do
        if [[ $type == dir ]]; then
            folders+=("$value")
        elif [[ $help == _ ]]; then
            plain+=("$value")
        else
            described+=("$value:$help")
        fi
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V unsorted -a plain
    (( $#folders )) && compadd -U -S '' -V unsorted -a folders
    return 0
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

FISH = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) \
COMP_CWORD=(commandline -t) %(prog_name)s 2>/dev/null)
    for line in $response
        string split --max 1 , -- $line | tail -n +2
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class _Joined(shells.ShellComplete):
    """A shell that takes `--option=value` for one word, so that candidates need the option as a prefix."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        found = super().get_completions(args, incomplete)
        name, equals, _ = incomplete.partition("=")
        if equals and name.startswith("--"):
            for item in found:
                item.value = f"{name}={item.value}"
        return found


class Bash(shells.BashComplete):
    """Bash, which takes `--option=value` for three words."""

    source_template = BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        words: list[str] = []
        for word in (*args, incomplete):
            if words and words[-1].startswith("--") and (word == "=" or words[-1].endswith("=")):
                words[-1] += word
            else:
                words.append(word)
        return words[:-1], words[-1]

    def source(self) -> str:
        return self.source_template % self.source_vars()


class Zsh(_Joined, shells.ZshComplete):
    """Zsh."""

    source_template = ZSH


class Fish(_Joined, shells.FishComplete):
    """Fish."""

    source_template = FISH


SHELLS: dict[str, type[shells.ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


@dataclass
class Arguments:
    """The arguments of `mucc completion`."""

    shell: str | None = argument(None, choices=tuple(SHELLS), metavar="|".join(SHELLS), help="the shell")


@command(Arguments, DESCRIPTION, usage="|".join(SHELLS), epilog=EPILOG)
def main(args: Arguments, reporter: Reporter) -> int:
    """Print the completion script of a shell."""
    if args.shell is None:
        raise usage_error("which shell?", f"choose from {', '.join(SHELLS)}")
    group = click.get_current_context().find_root().command
    assert isinstance(group, Group)
    sys.stdout.write(_shell(group, args.shell).source())
    return 0


def _shell(group: Group, name: str) -> shells.ShellComplete:
    return SHELLS[name](group, {}, group.tool.name, group.tool.completion_variable)


def answer(tool: Tool, instruction: str) -> int:
    """Print the candidates for an instruction such as `bash_complete`, and return the exit status."""
    name, _, asked = instruction.partition("_")
    if name not in SHELLS or asked != "complete":
        return ExitStatus.USAGE
    text = _shell(Group(tool), name).complete()
    files.write_stdout(f"{text}\n".encode("utf-8", "surrogateescape") if text else b"")
    return ExitStatus.GOOD
