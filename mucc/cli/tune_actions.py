"""Actions of `mucc tune` besides tuning a file: folders of candidates, and the tuning database."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, cast

from mucc.cli.reporting import Reporter
from mucc.compiler import files
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.files.json_text import json_text

if TYPE_CHECKING:
    from mucc.cli.tune_options import Arguments
    from mucc.database.records import Record


def run(action: str, args: Arguments, reporter: Reporter) -> int:
    """Run one of `mucc.cli.tune_options.ACTIONS`, and return the exit status."""
    match action:
        case "measure_only":
            return _measure_only(args, reporter)
        case "collect":
            return _collect(args)
        case "list":
            return _list(args)
        case "forget":
            return _forget(args)
        case "export":
            return _export(args)
        case _:
            return _import(args)


def _measure_only(args: Arguments, reporter: Reporter) -> int:
    from mucc.cli.tune_options import where_of
    from mucc.measure.tune.folder import Folder
    from mucc.measure.tune.measure_folder import Progress, measure
    from mucc.measure.tune.show import rate

    assert args.measure_only is not None

    def measured(p: Progress) -> None:
        if args.json or reporter.json:
            return
        run = p.record.run
        outcome = rate(p.size, p.record) if p.record.is_good else f"{run.status.value}: {run.reason}"
        sys.stderr.write(f"mucc: {p.done} of {p.total}: {p.kernel.name} at {p.size.text}: {outcome}\n")
        sys.stderr.flush()

    Folder(args.measure_only).plan()  # before a GPU is looked for
    problems: tuple[Diagnostic, ...] = ()
    try:
        measure(
            args.measure_only,
            again=args.again,
            timeout=args.timeout,
            where=where_of(args, reporter),
            measured=measured,
        )
    except DiagnosticError as error:
        if any(d.code != "MU5311" for d in error.diagnostics):
            raise
        problems = error.diagnostics
    _show(args.measure_only, args, failed=bool(problems))
    reporter.add(problems)
    return 0


def _collect(args: Arguments) -> int:
    from mucc.database.store import Store
    from mucc.measure.tune.folder import Folder

    assert args.collect is not None
    folder = Folder(args.collect)
    folder.plan()
    with Store() as store:
        changed = store.merge(folder.records())
    if not args.json:
        sys.stderr.write(f"took {changed} measurements into {store.path}\n")
    _show(args.collect, args)
    return 0


def _show(path: str, args: Arguments, *, failed: bool = False) -> None:
    """Print the results of a folder: tables, and the best schedules as source. Raises MU5309 for none."""
    from mucc.measure.tune.folder import results
    from mucc.measure.tune.report import as_json, no_result, schedules_text, table
    from mucc.measure.tune.search import overall_choice

    found = results(path)
    if args.json:
        rows = [{"kernel": r.kernel.name, "target": r.kernel.target, **as_json(r)} for r in found]
        sys.stdout.write(json_text({"results": rows}))
    else:
        sys.stderr.write("".join(f"{table(r)}\n" for r in found if r.records))
        kernels = {id(r.kernel): r.kernel for r in found}
        for kernel in kernels.values():
            mine = [r for r in found if r.kernel is kernel]
            if (choice := overall_choice(kernel, [x for r in mine for x in r.records])) is not None:
                sys.stdout.write(f"{schedules_text(kernel, choice, mine)}\n")
    errors = [e for r in found if (e := no_result(r))]
    if errors and not failed:
        raise DiagnosticError(errors)


def _list(args: Arguments) -> int:
    from mucc.database.store import Store
    from mucc.measure.tune.report import listing

    with Store() as store:
        records = _named(store.all(), args.kernel)
    if args.json:
        sys.stdout.write(_text(records))
    else:
        sys.stdout.write(listing(records))
    return 0


def _forget(args: Arguments) -> int:
    from mucc.database.store import Store

    with Store() as store:
        count = store.forget(name=args.kernel)
    sys.stdout.write(f"removed {count} measurements\n")
    return 0


def _export(args: Arguments) -> int:
    from mucc.database.store import Store

    assert args.export is not None
    with Store() as store:
        data = _text(_named(store.all(), args.kernel)).encode()
    if args.export == "-":
        files.write_stdout(data)
    else:
        files.check_output(args.export, (store.path,))
        files.write_output(args.export, data)
    return 0


def _import(args: Arguments) -> int:
    from mucc.database.records import Record
    from mucc.database.store import Store

    assert args.import_ is not None
    path = args.import_
    try:
        data: Any = json.loads(files.read_bytes(path))
        found: Any = cast("dict[str, Any]", data).get("measurements") if isinstance(data, dict) else None
        if not isinstance(found, list):
            raise ValueError("it is no JSON object with 'measurements'")
        records = [Record.from_json(item) for item in cast("list[Any]", found)]
    except ValueError as error:
        why = "it is no JSON" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else str(error)
        raise DiagnosticError(Diagnostic("MU5310", f"'{path}' holds no measurements: {why}")) from None
    with Store() as store:
        changed = store.merge(records)
    sys.stdout.write(f"took {changed} of {len(records)} measurements\n")
    return 0


def _named(records: list[Record], name: str | None) -> list[Record]:
    return [r for r in records if name in (None, r.name)]


def _text(records: list[Record]) -> str:
    return json_text({"measurements": [r.to_json() for r in records]}, 1)
