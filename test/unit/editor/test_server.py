"""`mucc lsp` and a real client that talks to it over its standard streams."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="pygls is not installed: pip install 'mucc[lsp]'")
pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed: pip install 'mucc[dev]'")

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pytest_lsp import LanguageClient, client_capabilities, make_test_lsp_client

ROOT = Path(__file__).parents[3]
URI = "file:///programs/kernel.mcu"
HANG = 120.0

PROGRAM = """\
fn twice(v) {
    return v * 2
}

kernel mlp[M, D, H=4096](x: bf16[M, D], w1: bf16[H, D], w2: bf16[D, H]) -> bf16[M, D] {
    stage h = gelu(x @ w1.T)
    y = twice(h @ w2.T)
    return y
}

schedule mlp.h for sm_90a {
    tile     = 128x256x64
    mainloop = cooperative
}
"""


class Session:
    """A client with a document that a server has opened."""

    def __init__(self, client: LanguageClient):
        self.client = client
        self.version = 0
        self.document = lsp.TextDocumentIdentifier(URI)

    async def open(self, text: str) -> list[lsp.Diagnostic]:
        """Open a document, and return its diagnostics."""
        self.version += 1
        item = lsp.TextDocumentItem(URI, "mcu", self.version, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return await self.diagnostics()

    async def replace(self, text: str, range: lsp.Range | None = None) -> list[lsp.Diagnostic]:
        """Replace the document, or a range of it, and return its diagnostics."""
        self.edit(text, range)
        return await self.diagnostics()

    def edit(self, text: str, range: lsp.Range | None = None) -> None:
        """Replace the document, or a range of it."""
        self.version += 1
        change = (
            lsp.TextDocumentContentChangePartial(range, text)
            if range
            else lsp.TextDocumentContentChangeWholeDocument(text)
        )
        known = lsp.VersionedTextDocumentIdentifier(self.version, URI)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(known, [change]))

    async def diagnostics(self) -> list[lsp.Diagnostic]:
        """Wait for the diagnostics of the version that was sent last."""
        while self.client.versions.get(URI) != self.version:  # type: ignore[attr-defined]
            await asyncio.wait_for(
                self.client.wait_for_notification(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS), HANG
            )
        return list(self.client.diagnostics.get(URI, ()))

    async def hover(self, text: str, word: str, into: int = 0) -> str:
        """Return what is shown of the first place of a word."""
        params = lsp.HoverParams(self.document, position(text, word, into))
        found = await self.client.text_document_hover_async(params)
        if found is None:
            return ""
        assert isinstance(found.contents, lsp.MarkupContent)
        return found.contents.value

    async def complete(self, text: str, word: str) -> dict[str, lsp.CompletionItem]:
        """Return completions behind the first place of a word."""
        params = lsp.CompletionParams(self.document, position(text, word, len(word)))
        found = await self.client.text_document_completion_async(params)
        assert isinstance(found, list)
        return {item.label: item for item in found}


def position(text: str, word: str, into: int = 0) -> lsp.Position:
    """Return the place of the first occurrence of a word, `into` characters behind its start."""
    before = text[: text.index(word) + into]
    return lsp.Position(before.count("\n"), len(before.rpartition("\n")[2]))


def serve(work: Callable[[Session], Awaitable[None]], *options: str) -> None:
    """Start a server, run some work with a client of it, and end it as an editor does."""

    async def run() -> None:
        client = make_test_lsp_client()
        client.versions, client.published = {}, 0  # type: ignore[attr-defined]
        inner = client.protocol.fm.features[lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS]

        def published(params: lsp.PublishDiagnosticsParams) -> None:
            inner(params)
            client.published += 1  # type: ignore[attr-defined]
            client.versions[params.uri] = params.version  # type: ignore[attr-defined]

        client.protocol.fm.features[lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS] = published
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        await client.start_io(sys.executable, "-m", "mucc", "lsp", *options, env=environment)
        params = lsp.InitializeParams(capabilities=client_capabilities("visual-studio-code"))
        await asyncio.wait_for(client.initialize_session(params), HANG)
        await work(Session(client))
        await asyncio.wait_for(client.shutdown_session(), HANG)
        await asyncio.wait_for(client.stop(), HANG)

    asyncio.run(run())


def test_a_program_is_checked_as_it_is_typed():
    async def work(session: Session) -> None:
        assert await session.open(PROGRAM) == []
        wrong = PROGRAM.replace("gelu(", "gelo(")
        (found,) = await session.replace(wrong)
        assert (found.code, found.source, found.severity) == ("MU1002", "mucc", lsp.DiagnosticSeverity.Error)
        assert found.range.start == position(wrong, "gelo")
        context = lsp.CodeActionContext([found])
        request = lsp.CodeActionParams(session.document, found.range, context)
        actions = await session.client.text_document_code_action_async(request)
        action = next(a for a in actions or () if isinstance(a, lsp.CodeAction))
        assert action.edit and action.edit.changes
        (edit,) = action.edit.changes[URI]
        assert await session.replace(edit.new_text, edit.range) == []

    serve(work)


def test_schedules_that_do_not_fit_are_reported_where_they_are():
    async def work(session: Session) -> None:
        await session.open(PROGRAM)
        wrong = "// one line more\n\n" + PROGRAM.replace("cooperative", "pingpong")
        found = await session.replace(wrong)
        assert [d.code for d in found] == ["MU3006"]
        assert found[0].range.start in (position(wrong, "128x256x64"), position(wrong, "pingpong"))

    serve(work)


def test_half_written_texts_get_diagnostics_and_no_crash():
    async def work(session: Session) -> None:
        await session.open("")
        for end in range(0, len(PROGRAM), 7):
            await session.replace(PROGRAM[:end])
            await session.hover(PROGRAM[:end] or " ", PROGRAM[:end][-3:] or " ")
        for text in ("\ufeff" + PROGRAM, PROGRAM.replace("\n", "\r\n"), "kernel \x0c\u2028{((((", "(" * 9000):
            await session.replace(text)
        assert await session.replace(PROGRAM) == []

    serve(work)


def test_hover_says_types_bytes_bounds_and_schedules():
    async def work(session: Session) -> None:
        await session.open(PROGRAM)
        shown = await session.hover(PROGRAM, "h = gelu")
        assert "h: bf16[M, 4096]" in shown and "8192*M bytes" in shown
        assert "tile      = 128x256x64    (pinned)" in shown and "bound by" in shown
        product = await session.hover(PROGRAM, "@ w1")
        assert "x @ w1.T: " in product and "stage h: one gemm kernel" in product
        assert "gelu(x, approximate" in await session.hover(PROGRAM, "gelu")
        assert "bound" in await session.hover(PROGRAM, "mlp[")
        assert "thread block" in await session.hover(PROGRAM, "tile ")

    serve(work)


def test_completions_are_names_functions_settings_and_their_values():
    async def work(session: Session) -> None:
        text = PROGRAM.replace("    y = ", "    z = h\n    y = ")
        await session.open(text)
        names = await session.complete(text, "    z = ")
        assert {"h", "x", "w1", "gelu", "twice"} <= names.keys() and "y" not in names
        assert names["h"].detail == "bf16[M, 4096]"
        assert {"tile", "cluster", "pdl"} <= (await session.complete(text, "sm_90a {\n    ")).keys()
        assert {"cooperative", "pingpong"} <= (await session.complete(text, "mainloop = ")).keys()
        assert "sm_90a" in await session.complete(text, "mlp.h for ")
        assert "mlp.h" in await session.complete(text, "schedule ")
        assert {"bf16", "f32"} <= (await session.complete(text, "(x: ")).keys()
        half = text.replace("    z = h", "    z = h @ ")
        assert [d.severity for d in await session.replace(half)]
        assert (await session.complete(half, "    z = h @ "))["w2"].detail == "bf16[D, 4096]"

    serve(work)


def test_names_are_found_renamed_and_outlined():
    async def work(session: Session) -> None:
        await session.open(PROGRAM)
        client, document = session.client, session.document
        use = position(PROGRAM, "h @ w2")
        place = await client.text_document_definition_async(lsp.DefinitionParams(document, use))
        assert isinstance(place, lsp.Location) and place.range.start == position(PROGRAM, "h = gelu")
        everywhere = lsp.ReferenceContext(include_declaration=True)
        uses = await client.text_document_references_async(lsp.ReferenceParams(everywhere, document, use))
        assert uses and position(PROGRAM, "mlp.h", 4) in [u.range.start for u in uses] and len(uses) == 3
        renamed = await client.text_document_rename_async(lsp.RenameParams(document, use, "hidden"))
        assert renamed and renamed.changes and len(renamed.changes[URI]) == 3
        with pytest.raises(JsonRpcException, match="no name"):
            await client.text_document_rename_async(lsp.RenameParams(document, use, "for"))
        outline = await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))
        assert [s.name for s in outline or ()] == ["twice", "mlp"]
        assert isinstance(outline[1], lsp.DocumentSymbol)
        assert [c.name for c in outline[1].children or ()] == ["h", "y"]

    serve(work)


def test_layout_and_hints():
    async def work(session: Session) -> None:
        untidy = PROGRAM.replace("    y = twice(", "  y=twice( ")
        await session.open(untidy)
        options = lsp.FormattingOptions(tab_size=4, insert_spaces=True)
        edits = await session.client.text_document_formatting_async(
            lsp.DocumentFormattingParams(session.document, options)
        )
        assert edits and edits[0].new_text == PROGRAM
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(99, 0))
        params = lsp.InlayHintParams(session.document, whole)
        hints = await session.client.text_document_inlay_hint_async(params)
        assert [h.label for h in hints or ()] == [": bf16[M, 4096]", ": bf16[M, D]"]

    serve(work)


def test_columns_are_counted_as_the_client_counts():
    async def work(session: Session) -> None:
        text = "// 𝕏𝕐 ü\n" + PROGRAM.replace("gelu(", "gelo(")
        (found,) = await session.open(text)
        assert found.range.start == position(text, "gelo")
        beyond = lsp.HoverParams(session.document, lsp.Position(10_000, 10_000))
        assert await session.client.text_document_hover_async(beyond) is None

    serve(work)


def test_lines_end_where_the_client_ends_them():
    """Form feeds and the separators of Unicode are characters of a line."""

    async def work(session: Session) -> None:
        assert await session.open(PROGRAM) == []
        for odd in ("\x0c", "\u2028", "\x85", "\x1c"):
            text = f"// one{odd} line\r\n" + PROGRAM
            assert await session.replace(text) == []
            place = position(text, "gelu", 3)
            (found,) = await session.replace("o", lsp.Range(place, position(text, "gelu", 4)))
            assert found.range.start == position(text, "gelu") and "'gelo'" in found.message, repr(odd)
            assert await session.replace("u", lsp.Range(place, position(text, "gelu", 4))) == []

    serve(work)


def test_an_edit_of_a_long_program_is_checked_once_for_many_keys():
    kernels = "\n".join(PROGRAM.replace("mlp", f"mlp{i}").replace("twice", f"twice{i}") for i in range(19))

    async def work(session: Session) -> None:
        assert await session.open(kernels) == []
        place = position(kernels, "* 2", 3)
        for _ in range(10):
            session.edit("0", lsp.Range(place, place))
        assert await session.diagnostics() == []
        assert session.client.published < 10  # type: ignore[attr-defined]

    serve(work)


def test_an_unknown_target_is_an_error():
    command = [sys.executable, "-m", "mucc", "lsp", "--target", "sm_90"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG)
    assert "error[MU4001]" in done.stderr and "sm_90a" in done.stderr


def test_without_pygls_the_extra_is_named(tmp_path: Path):
    (tmp_path / "pygls").mkdir()
    (tmp_path / "pygls" / "__init__.py").write_text("raise ModuleNotFoundError(name='pygls')")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-m", "mucc", "lsp"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 3
    assert "error[MU5213]" in done.stderr and "pip install 'mucc[lsp]'" in done.stderr
