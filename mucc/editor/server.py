"""A language server on pygls: the protocol around `analysis` and `assist`.

Offsets are characters of the source; the protocol counts lines from 0, and columns in the units that the
client asks for. A document is analysed when it is asked about, once for each of its versions.
"""

from __future__ import annotations

import asyncio
import gc
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.workspace import ServerTextPosition, TextDocument

from mucc.diagnostics.core import Applicability, Diagnostic, DiagnosticError, Fix, Severity, Source, Span
from mucc.editor.analysis import Analysis, Value, analyse
from mucc.editor.assist import completions, hover
from mucc.editor.documents import Protocol
from mucc.editor.symbols import Kind, Symbol, symbol_at
from mucc.frontend import format as formatted
from mucc.frontend.lexer import is_name
from mucc.version import __version__

SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.NOTE: lsp.DiagnosticSeverity.Information,
}

ITEMS = {
    "kernel": lsp.CompletionItemKind.Function,
    "function": lsp.CompletionItemKind.Function,
    "dim": lsp.CompletionItemKind.TypeParameter,
    "parameter": lsp.CompletionItemKind.Variable,
    "value": lsp.CompletionItemKind.Variable,
    "stage": lsp.CompletionItemKind.Variable,
    "keyword": lsp.CompletionItemKind.Keyword,
    "type": lsp.CompletionItemKind.Class,
    "setting": lsp.CompletionItemKind.Property,
    "word": lsp.CompletionItemKind.EnumMember,
}

OUTLINE = {
    Kind.KERNEL: lsp.SymbolKind.Function,
    Kind.FUNCTION: lsp.SymbolKind.Function,
    Kind.STAGE: lsp.SymbolKind.Variable,
    Kind.VALUE: lsp.SymbolKind.Variable,
}


_FIRST = "kernel first[N](x: f32[N]) -> f32[N] {\n    return x + x\n}\n"

QUIET = 0.01
"""How long, in seconds, a text has to stay as it is before it is checked: keys come in bursts."""


class Server(LanguageServer):
    """The server of one client. `target` is what programs are checked for."""

    def __init__(self, target: str):
        super().__init__("mucc", __version__, protocol_cls=Protocol)  # pyright: ignore[reportUnknownMemberType]
        self.target = target
        self._known: dict[str, tuple[int | None, Analysis]] = {}
        self._waiting: dict[str, asyncio.TimerHandle] = {}

    def document(self, uri: str) -> Document:
        """Return a document of the client with its analysis, which is made where the text has changed."""
        text = self.workspace.get_text_document(uri)
        version, known = self._known.get(uri, (None, None))
        if known is None or version != text.version or known.source.text != text.source:
            before = {} if known is None else {**known.remembered, **known.values}
            known = analyse(text.source, text.path or uri, self.target)
            known.remembered = before
            self._known[uri] = text.version, known
        return Document(text, known)

    def forget(self, uri: str) -> None:
        """Drop what is known of a document."""
        self._known.pop(uri, None)
        if (handle := self._waiting.pop(uri, None)) is not None:
            handle.cancel()

    def publish_soon(self, uri: str) -> None:
        """Send the diagnostics of a document as soon as it stays as it is."""
        if (handle := self._waiting.get(uri)) is not None:
            handle.cancel()
        self._waiting[uri] = asyncio.get_running_loop().call_later(QUIET, self.publish, uri)

    def publish(self, uri: str) -> None:
        """Send the diagnostics of a document to the client."""
        document = self.document(uri)
        found = [document.diagnostic(d) for d in document.analysis.diagnostics]
        version = document.text.version
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, version))


class Document:
    """A document with its analysis, and the protocol's ways to say places in it."""

    def __init__(self, text: TextDocument, analysis: Analysis):
        self.text = text
        self.analysis = analysis

    @property
    def source(self) -> Source:
        return self.analysis.source

    @cached_property
    def _lines(self) -> tuple[Sequence[str], list[int]]:
        """The lines as the protocol counts them, and where each begins."""
        lines = self.text.lines
        return lines, [0, *accumulate(map(len, lines))]

    @property
    def _mark(self) -> int:
        """How much of the client's text is no part of the source: its byte order mark."""
        return len(self.text.source) - len(self.source.text)

    def offset(self, position: lsp.Position) -> int:
        """Convert a position of the client to an offset into the source."""
        lines, starts = self._lines
        here = self.text.position_codec.position_from_client_units(lines, position)
        offset = starts[min(here.line, len(starts) - 1)] + here.character - self._mark
        return min(max(offset, 0), len(self.source.text))

    def position(self, offset: int) -> lsp.Position:
        """Convert an offset to a position as the client counts."""
        lines, starts = self._lines
        offset = min(max(offset, 0), len(self.source.text)) + self._mark
        line = max(bisect_right(starts, offset) - 1, 0)
        if line == len(lines) and lines and not lines[-1].endswith(("\n", "\r")):
            line -= 1  # the end of a text without a last line end
        here = ServerTextPosition(line, offset - starts[line])
        return self.text.position_codec.position_to_client_units(lines, here)

    def range(self, span: Span | None) -> lsp.Range:
        """Convert a span; none is the beginning of the document."""
        if span is None:
            span = Span(0, 0)
        return lsp.Range(self.position(span.start), self.position(span.end))

    def location(self, span: Span) -> lsp.Location:
        """Convert a span to a place in this document."""
        return lsp.Location(self.text.uri, self.range(span))

    def diagnostic(self, found: Diagnostic) -> lsp.Diagnostic:
        """Convert a diagnostic; its labels become related information, its help is part of the text."""
        more = [*(f"note: {n}" for n in found.notes), *(f"help: {h}" for h in found.helps)]
        related = [lsp.DiagnosticRelatedInformation(self.location(span), text) for span, text in found.labels]
        return lsp.Diagnostic(
            self.range(found.span),
            "\n".join([found.message, *more]),
            severity=SEVERITIES[found.severity],
            code=found.code,
            source="mucc",
            related_information=related or None,
        )

    def action(self, found: Diagnostic, fix: Fix) -> lsp.CodeAction:
        """Convert a fix of a diagnostic."""
        edit = lsp.TextEdit(self.range(fix.span), fix.replacement)
        return lsp.CodeAction(
            fix.message or (f"replace by `{fix.replacement}`" if fix.replacement else "remove it"),
            lsp.CodeActionKind.QuickFix,
            diagnostics=[self.diagnostic(found)],
            is_preferred=fix.applicability is Applicability.MACHINE_APPLICABLE,
            edit=lsp.WorkspaceEdit({self.text.uri: [edit]}),
        )

    def symbol(self, position: lsp.Position) -> Symbol | None:
        """Return the name at a position."""
        return symbol_at(self.analysis.symbols, self.offset(position))


def make(target: str) -> Server:
    """Make a server with all its features."""
    server = Server(target)
    for add in (_diagnostics, _words, _names, _layout):
        add(server)
    return server


def _diagnostics(server: Server) -> None:
    """Publish diagnostics as documents change, and offer their fixes."""

    @server.feature(lsp.INITIALIZED)
    def ready(params: lsp.InitializedParams) -> None:
        """Load the compiler before a program is opened; collections then pass over what was loaded."""
        analyse(_FIRST, "", server.target)
        gc.freeze()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.publish_soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(params.text_document.uri, []))

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]),
    )
    def fixes(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = server.document(params.text_document.uri)
        start, end = document.offset(params.range.start), document.offset(params.range.end)
        return [
            document.action(found, fix)
            for found in document.analysis.diagnostics
            for fix in found.fixes
            if any(s and s.start <= end and start <= s.end for s in (found.span, fix.span))
        ]


def _words(server: Server) -> None:
    """Say what words mean, and which could come next."""

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=["=", ".", ":", "("])
    )
    def complete(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        document = server.document(params.text_document.uri)
        items = completions(document.analysis, document.offset(params.position))
        return [
            lsp.CompletionItem(
                i.text, kind=ITEMS[i.kind], detail=i.detail or None, documentation=i.doc or None
            )
            for i in items
        ]

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        document = server.document(params.text_document.uri)
        found = hover(document.analysis, document.offset(params.position))
        if found is None:
            return None
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found.text), document.range(found.span))

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        document = server.document(params.text_document.uri)
        start, end = document.offset(params.range.start), document.offset(params.range.end)
        return [
            lsp.InlayHint(document.position(symbol.declared.end), f": {value.type}", lsp.InlayHintKind.Type)
            for symbol, value in _typed(document.analysis)
            if start <= symbol.declared.end <= end
        ]


def _names(server: Server) -> None:
    """Find, rename and list the names that a document declares."""

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def defined(params: lsp.DefinitionParams) -> lsp.Location | None:
        document = server.document(params.text_document.uri)
        symbol = document.symbol(params.position)
        return document.location(symbol.declared) if symbol else None

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def referred(params: lsp.ReferenceParams) -> list[lsp.Location]:
        document = server.document(params.text_document.uri)
        symbol = document.symbol(params.position)
        spans = symbol.spans() if symbol else []
        return [document.location(span) for span in spans[0 if params.context.include_declaration else 1 :]]

    @server.feature(lsp.TEXT_DOCUMENT_RENAME)
    def renamed(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        document = server.document(params.text_document.uri)
        symbol = document.symbol(params.position)
        if symbol is None:
            return None
        if not is_name(params.new_name):
            raise JsonRpcInvalidParams(f"'{params.new_name}' is no name")
        edits = [lsp.TextEdit(document.range(span), params.new_name) for span in symbol.spans()]
        return lsp.WorkspaceEdit({params.text_document.uri: edits})

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outlined(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        document = server.document(params.text_document.uri)
        return _outline(document)


def _layout(server: Server) -> None:
    """Lay documents out."""

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def laid_out(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        document = server.document(params.text_document.uri)
        try:
            text = formatted(document.source)
        except DiagnosticError:  # which the diagnostics show
            return []
        whole = Span(0, len(document.source.text))
        return [] if text == document.source.text else [lsp.TextEdit(document.range(whole), text)]


def _typed(analysis: Analysis) -> list[tuple[Symbol, Value]]:
    """Return stages and values whose type the text does not say, with what is known of them."""
    stated = {
        (kernel.name.text, statement.name.text)
        for kernel in analysis.program.kernels
        for statement in kernel.body
        if statement.type is not None
    }
    found = ((s, analysis.value_of(s)) for s in analysis.symbols if s.kind in (Kind.STAGE, Kind.VALUE))
    return [(s, value) for s, value in found if value is not None and (s.owner, s.name) not in stated]


def _outline(document: Document) -> list[lsp.DocumentSymbol]:
    """Return kernels and functions, with their stages and values beneath them."""
    found: list[lsp.DocumentSymbol] = []
    inner: dict[str, list[lsp.DocumentSymbol]] = {}
    for symbol in document.analysis.symbols:
        if symbol.kind not in OUTLINE:
            continue
        place = document.range(symbol.declared)
        value = document.analysis.value_of(symbol)
        children = inner.setdefault(symbol.name, []) if not symbol.owner else None
        detail = value.type if value else None
        one = lsp.DocumentSymbol(
            symbol.name, OUTLINE[symbol.kind], place, place, detail=detail, children=children
        )
        (inner.get(symbol.owner, found) if symbol.owner else found).append(one)
    return found
