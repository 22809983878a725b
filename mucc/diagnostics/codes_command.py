"""MU50xx: the command line and files. All are wrong usage, but for MU502x, the contents of a source file."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU5001": CodeInfo(
        "the command line is wrong",
        """
An option is not known or lacks its value, two options exclude each other, or a file name is missing.

```
$ mucc kernel.mcu --taget sm_90a
error[MU5001]: there is no option '--taget'
```

Mend it with the option that the help suggests; `mucc COMMAND --help` lists all of a command.
""",
        status=ExitStatus.USAGE,
    ),
    "MU5002": CodeInfo(
        "there is no such command",
        """
The first word is neither a command nor a file that exists.

```
$ mucc chek kernel.mcu
error[MU5002]: there is no command 'chek', and no file of that name
```

`mucc --help` lists the commands. A file whose name is that of a command is written with its
directory: `mucc ./run`.
""",
        status=ExitStatus.USAGE,
    ),
    "MU5003": CodeInfo(
        "there is no such diagnostic code",
        """
`mucc explain` was asked for a code that no diagnostic has.

```
$ mucc explain MU5999
```

`mucc explain` without a code lists them all.
""",
        status=ExitStatus.USAGE,
    ),
    "MU5010": CodeInfo(
        "the input file does not exist",
        """
No file has the name that was given.

```
$ mucc kernal.mcu -o kernel.so
error[MU5010]: there is no file 'kernal.mcu'
  = help: did you mean 'kernel.mcu'?
```

Mend the name. A name is relative to the directory that the command runs in.
""",
        status=ExitStatus.USAGE,
    ),
    "MU5011": CodeInfo(
        "the input file cannot be read",
        """
The name leads to a directory, or the file may not be read by this user.

```
$ mucc examples -o kernel.so
error[MU5011]: 'examples' is a directory, not a file
```

Name a file, or give yourself the right to read it (`chmod u+r FILE`).
""",
        status=ExitStatus.USAGE,
    ),
    "MU5012": CodeInfo(
        "the directory of the output does not exist",
        """
mucc writes into directories that exist; it makes none, so that a mistyped path is noticed.

```
$ mucc kernel.mcu -o biuld/kernel.so
error[MU5012]: cannot write 'biuld/kernel.so': there is no directory 'biuld'
```

Mend the path, or make the directory with `mkdir -p`.
""",
        status=ExitStatus.USAGE,
    ),
    "MU5013": CodeInfo(
        "the output is a directory",
        """
`-o` wants the name of a file.

```
$ mucc kernel.mcu -o build
```

Mend it with `-o build/kernel.so`.
""",
        status=ExitStatus.USAGE,
    ),
    "MU5014": CodeInfo(
        "the output cannot be written",
        """
The file or its directory may not be written by this user, or the disk is full. The file that was there
before is untouched: an output is written beside it first and then put in its place.

```
$ mucc kernel.mcu -o /usr/lib/kernel.so
error[MU5014]: cannot write '/usr/lib/kernel.so': permission denied in '/usr/lib'
```

Mend it by choosing another place for the output, or by changing the rights.
""",
        status=ExitStatus.USAGE,
    ),
    "MU5015": CodeInfo(
        "the output would overwrite the input",
        """
`-o` names the source file itself, perhaps by another path or through a link.

```
$ mucc kernel.mcu --emit=mu -o kernel.mcu
```

Mend it by giving the output another name.
""",
        status=ExitStatus.USAGE,
    ),
    "MU5020": CodeInfo(
        "the source is not UTF-8",
        r"""
Source files are UTF-8. The message gives the first byte that is not, with its offset and line.

```
$ printf 'kernel k\xff' > kernel.mcu && mucc check kernel.mcu
error[MU5020]: 'kernel.mcu' is not UTF-8 text: byte 0xff at offset 8 (line 1)
```

Mend it by saving the file as UTF-8, or with `iconv -f latin1 -t utf-8`. A compiled file is no source.
""",
    ),
    "MU5021": CodeInfo(
        "the source is empty",
        """
The file holds nothing but white space, so there is nothing to compile.

```
$ mucc check /dev/null
error[MU5021]: '/dev/null' is empty
```

`mucc docs --card` shows how to write a program; `examples/` has some.
""",
    ),
    "MU5022": CodeInfo(
        "textual IR cannot be read",
        """
`mucc-opt` reads the IR that it and `mucc --emit` print. An operation, an attribute or a type is unknown, or
stands where another one has to.

```
$ echo "mu.foo" | mucc-opt
error[MU5022]: Operation mu.foo is not registered
```

Mend the text at the place that is shown. Textual IR of another version of mucc may read otherwise.
""",
    ),
    "MU5023": CodeInfo(
        "IR is not legal",
        """
`mucc-opt` verifies IR after it is read and after each pass. An operation breaks a rule of its own, or a pass
cannot go on with it; the message says which.

Mend the IR; `mucc-opt --print-between-passes` shows what each pass made of it.
""",
    ),
}
