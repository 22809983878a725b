"""HTTP calls of models: time limits, addresses and keys, and the meaning of failures."""

from __future__ import annotations

import email.utils
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mucc.agent.propose.llm.addresses import checked_address
from mucc.agent.propose.llm.endpoint import EndpointError, Partial
from mucc.agent.propose.llm.options import Options
from mucc.agent.propose.llm.redaction import redact
from mucc.api.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    import httpx2

OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")
"""Events of httpcore that tell of the socket of a connection."""

QUOTED = 300
"""Characters of what an endpoint said that messages quote."""

CERTAIN = 5.0
"""Seconds after which the HTTP client gives up by itself where the watch should have ended a call."""


def package(name: str) -> ModuleType:
    """Return a package of the extra `mucc[agent]`. Raises MU7235 where it is missing."""
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError:
        helps = ("pip install 'mucc[agent]'",)
        raise DiagnosticError(Diagnostic("MU7235", f"this needs the package {name}", helps=helps)) from None


def key_of(options: Options, variable: str, *, needed: bool) -> str | None:
    """Return the key, from the environment. Raises MU7236 where there is none though one is needed."""
    name = options.key_env or variable
    key = os.environ.get(name, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        raise DiagnosticError(Diagnostic("MU7236", f"what the variable {name} holds cannot be a key"))
    if key or not (needed or options.key_env):
        return key or None
    helps = (f"export {name}=… in the shell that starts mucc-agent", "--key-env names another variable")
    raise DiagnosticError(Diagnostic("MU7236", f"the variable {name} holds no key", helps=helps))


def address_of(options: Options, variable: str, default: str) -> str:
    """Return the base URL: as given, from the environment, or the provider's own. Raises MU7239."""
    return checked_address(options.base_url or os.environ.get(variable, "").strip() or default)


class Watch:
    """Ends a call that takes too long, by shutting down its socket.

    An HTTP client's own limit is one for each piece that it reads: an endpoint that sends a sign of life now
    and then, but no token, would keep it waiting for good.
    """

    def __init__(self, options: Options):
        self._first, self._silence = options.first_token_timeout, options.silence_timeout
        self._whole = options.call_timeout
        self._begun = self._heard = time.monotonic()
        self._tokens = False
        self._socket: socket.socket | None = None
        self._changed = threading.Condition()
        self._over = False
        self.fault = ""
        """The reason why the call was ended; empty where it was not."""

    def heard(self) -> None:
        """Record that a piece of the answer arrived."""
        self._heard = time.monotonic()
        if not self._tokens:  # from now on another limit holds, which may be nearer
            with self._changed:
                self._tokens = True
                self._changed.notify()

    def opened(self, event: str, info: Mapping[str, Any]) -> None:
        """Receive an event of a connection from httpcore."""
        if event.endswith(OPENED) and (stream := info.get("return_value")) is not None:
            with self._changed:
                self._socket = stream.get_extra_info("socket")

    def __enter__(self) -> Watch:
        threading.Thread(target=self._run, name="mucc-model-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._over, self._socket = True, None
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._over:
                until, reason = self._limit()
                left = until - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                self.fault = reason
                if self._socket is not None:
                    with suppress(OSError):
                        # Not SSLSocket's own, which takes the reader's TLS object away under its hands.
                        socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                    return
                self._changed.wait(0.05)  # it is still connecting, which has a limit of its own

    def _limit(self) -> tuple[float, str]:
        whole = (self._begun + self._whole, f"the answer took more than {self._whole:g} s")
        if self._tokens:
            other = (self._heard + self._silence, f"the answer stalled for {self._silence:g} s")
        else:
            other = (self._begun + self._first, f"no token came within {self._first:g} s")
        return min(whole, other)


@contextmanager
def http_client(options: Options) -> Generator[tuple[httpx2.Client, Watch]]:
    """Yield a client for one call, which is watched.

    Redirects are errors: they would carry the key to wherever an endpoint says.
    """
    import httpx2

    reading = max(options.first_token_timeout, options.silence_timeout) + CERTAIN
    timeout = httpx2.Timeout(reading, connect=options.connect_timeout, pool=options.connect_timeout)

    with Watch(options) as watch:

        def trace(request: httpx2.Request) -> None:
            request.extensions["trace"] = watch.opened

        hooks = {"request": [trace]}
        with httpx2.Client(
            verify=_tls(), timeout=timeout, follow_redirects=False, event_hooks=hooks
        ) as client:
            yield client, watch


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Return the TLS context of all calls: reading the certificates takes longest."""
    import httpx2

    return httpx2.create_ssl_context()


@contextmanager
def failures(sdk: ModuleType, model: str, key: str | None, watch: Watch, partial: Partial) -> Generator[None]:
    """Turn whatever a client raises into EndpointError."""
    import httpx2

    try:
        yield
    except EndpointError:
        raise
    except (sdk.APIError, httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        raise _failure(sdk, error, model, key, watch, partial) from None
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:  # of odd JSON
        said = f"it is not what the protocol says: {_quoted(str(error), key)}"
        raise EndpointError("MU7243", said, partial=partial.answer()) from None


def _failure(
    sdk: ModuleType, error: Exception, model: str, key: str | None, watch: Watch, partial: Partial
) -> EndpointError:
    come = partial.answer()
    if watch.fault:
        return EndpointError("MU7241", watch.fault, partial=come)
    if isinstance(error, sdk.APIStatusError):
        failure = _status(error, model, key)
        failure.partial = come
        return failure
    if isinstance(error, (sdk.APITimeoutError, TimeoutError)) or "Timeout" in type(error).__name__:
        return EndpointError("MU7241", "the endpoint did not answer in time", partial=come)
    if type(error) is sdk.APIError:  # an error in the midst of a stream
        return EndpointError("MU7240", f"the endpoint broke off: {_quoted(str(error), key)}", partial=come)
    cause = error.__cause__ or error
    said = _quoted(f"{type(cause).__name__}: {cause}", key)
    return EndpointError("MU7242", f"the connection failed: {said}", partial=come)


def _status(error: Any, model: str, key: str | None) -> EndpointError:
    status: int = error.status_code
    said = _quoted(said_by(error), key)
    after = retry_after(error.response.headers)
    if status in (401, 403):
        return EndpointError("MU7237", f"the endpoint refuses the key ({status}): {said}", final=True)
    if status == 404:
        message = f"the endpoint knows no model '{model}', or lies elsewhere (404): {said}"
        return EndpointError("MU7238", message, final=True)
    if status == 402 or "insufficient_quota" in f"{said} {getattr(error, 'code', '')}":
        return EndpointError("MU7253", f"the account has no credit left ({status}): {said}", final=True)
    if status in (408, 409, 425, 429) or status >= 500:
        return EndpointError("MU7240", f"the endpoint is busy or failing ({status}): {said}", after=after)
    if status < 300:  # an error in the midst of a stream
        return EndpointError("MU7240", f"the endpoint broke off: {said}", after=after)
    if status < 400:
        return EndpointError(
            "MU7243", f"the endpoint redirects ({status}), which is not followed", final=True
        )
    return EndpointError("MU7244", f"the endpoint rejects the request ({status}): {said}", final=True)


def said_by(error: Any) -> str:
    """Return the message within a provider's error."""
    body = error.body
    if isinstance(body, dict):
        inner: Any = body.get("error", body)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if isinstance(inner, dict) and inner.get("message"):  # pyright: ignore[reportUnknownMemberType]
            return str(inner["message"])  # pyright: ignore[reportUnknownArgumentType]
        return json.dumps(inner)
    return str(body or error.message)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, as `Retry-After` or `retry-after-ms` of a response say; None where they do not."""
    with suppress(KeyError, ValueError):
        return max(float(headers["retry-after-ms"]) / 1000, 0.0)
    if (text := headers.get("retry-after")) is None:
        return None
    with suppress(ValueError):
        return max(float(text), 0.0)
    with suppress(ValueError, TypeError):
        return max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    return None


def _quoted(text: str, key: str | None) -> str:
    """Return the message of an endpoint, short, on one line, and without keys."""
    line = " ".join(redact(text, *([key] if key else [])).split())
    return line if len(line) <= QUOTED else f"{line[:QUOTED]}…"
