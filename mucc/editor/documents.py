"""Divide texts of a client into lines as the protocol (LSP) does.

pygls divides them by `str.splitlines`: also at form feeds, U+2028 and six other characters. For clients these
are characters within a line, so that all positions and edits after one of them would be a line off.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types as lsp
from pygls.protocol import LanguageServerProtocol
from pygls.workspace import TextDocument, Workspace

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")


class Text(TextDocument):
    """A text whose lines end with LF, CR LF or CR, and with nothing else."""

    @property
    def lines(self) -> Sequence[str]:
        """The lines with their ends."""
        return _LINE.findall(self.source)


class Texts(Workspace):
    """The texts that a client has open."""

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> TextDocument:
        kind, codec = lsp.TextDocumentSyncKind.Incremental, self.position_codec
        return Text(doc_uri, source, version, language_id, sync_kind=kind, position_codec=codec)


class Protocol(LanguageServerProtocol):
    """The language server protocol of pygls, over documents whose lines are those of the specification."""

    @property
    def workspace(self) -> Workspace:
        """The texts of the client. Raises RuntimeError before the client has begun."""
        found = super().workspace
        if not isinstance(found, Texts):
            kind, folders = lsp.TextDocumentSyncKind.Incremental, list(found.folders.values())
            found = Texts(found.root_uri, kind, folders, found.position_encoding)
            self._workspace = found
        return found
