"""No module imports itself by way of others: at load time, or lazily in a function."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest

grimp = pytest.importorskip("grimp", reason="comes with import-linter: pip install -e '.[dev]'")


def test_imports_form_no_cycle() -> None:
    graph = grimp.build_graph("mucc", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 500
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
