"""The headers of every answer, with the content security policy, and the page of an error."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from http import HTTPStatus

from tornado.httputil import HTTPHeaders
from tornado.web import Application, OutputTransform, RequestHandler

from k3scope.app.page.kit import nonce

# directive, sources, why; the shortest policy with which the page works
POLICY = (
    ("default-src", "'none'", "what is not named below is not loaded"),
    ("script-src", "'self' {nonce} blob: 'unsafe-eval'", "see SCRIPT_SOURCES"),
    (
        "style-src",
        "'self' 'unsafe-inline'",
        "Bokeh writes <style> into shadow roots; bars have a width of their own",
    ),
    ("img-src", "'self' data: blob:", "the icon; pictures of the Lab and attached images"),
    (
        "connect-src",
        "'self' blob:",
        "the websocket; es-module-shims reads a component's module from its blob",
    ),
    ("base-uri", "'none'", "no element may turn relative addresses elsewhere"),
    ("form-action", "'none'", "the page has no form that is sent"),
)
SCRIPT_SOURCES = {
    "'self'": "BokehJS and Panel's scripts under static/",
    "{nonce}": "inline scripts of our templates and of Bokeh's; no inline script of anybody else",
    "blob:": "Panel imports each component's module from a blob",
    "'unsafe-eval'": "BokehJS compiles templates and callbacks with new Function",
}
HEADERS = {
    "X-Content-Type-Options": "nosniff",  # an answer is what its type says
    "Referrer-Policy": "same-origin",  # a link holds a prompt: no other site is told it
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",  # none is used
    "Server": "k3scope",  # without versions
}
SENTENCES = {
    400: "This request could not be read. A link has at most 64 KB of readable text.",
    403: "This address may not be opened from there.",
    404: "There is nothing at this address.",
    405: "This address is only there to be read.",
    413: "This request is too large.",
    414: "This link is too long. A link has at most 64 KB.",
    500: "Something went wrong here. It is in the server's log.",
    503: "The server has as many visitors as it takes. Try again in a minute.",
}
RETRY_S = 60  # after a 503


def content_policy(script_nonce: str = "", frame_ancestors: Sequence[str] = ("*",)) -> str:
    """The policy of an answer; without a nonce none of its inline scripts runs."""
    own = f"'nonce-{script_nonce}'" if script_nonce else ""
    rows = [f"{directive} {sources.format(nonce=own)}" for directive, sources, _why in POLICY]
    if "*" not in frame_ancestors:  # without the directive a page may be framed by any
        words = [f"'{name}'" if name in ("self", "none") else name for name in frame_ancestors]
        rows.append(f"frame-ancestors {' '.join(words)}")
    return "; ".join(" ".join(row.split()) for row in rows)


def error_page(status: int) -> str:
    """A short page for an error: what it is, and nothing of the server."""
    title = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Error"
    sentence = SENTENCES.get(status, title)
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<h1>{status}: {escape(title)}</h1><p>{escape(sentence)}</p></html>"
    )


@dataclass(frozen=True)
class HeaderTransform:
    """Makes what puts the headers on an answer of Tornado, whatever handler gave it."""

    frame_ancestors: tuple[str, ...]

    def __call__(self, request) -> OutputTransform:
        return _Headers(self.frame_ancestors)


class _Headers(OutputTransform):
    def __init__(self, frame_ancestors: tuple[str, ...]):
        self._frame_ancestors = frame_ancestors

    def transform_first_chunk(self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool):
        script_nonce = headers.pop(NONCE_HEADER, "")
        headers["Content-Security-Policy"] = content_policy(script_nonce, self._frame_ancestors)
        for name, value in HEADERS.items():
            headers[name] = value
        if status_code == 503:
            headers["Retry-After"] = str(RETRY_S)
        if status_code >= 400 and finishing:
            headers["Content-Type"] = "text/html; charset=utf-8"
            chunk = error_page(status_code).encode() if chunk else chunk
            headers["Content-Length"] = str(len(chunk))
        return status_code, headers, chunk


NONCE_HEADER = "X-Script-Nonce"  # from a handler to the transform; it is not sent


class NonceHandler(RequestHandler):
    """A handler of pages with inline scripts of our own."""

    def write(self, chunk):
        """Write a page, whose scripts get the nonce of this answer."""
        if isinstance(chunk, str) and nonce.PLACEHOLDER in chunk:
            if not hasattr(self, "_nonce"):
                self._nonce = nonce.new()
                self.set_header(NONCE_HEADER, self._nonce)
            chunk = nonce.fill(chunk, self._nonce)
        super().write(chunk)


def add_headers(application: Application, frame_ancestors: Sequence[str]) -> None:
    """Put the headers on every answer of an application, before it is compressed."""
    application.transforms.insert(0, HeaderTransform(tuple(frame_ancestors)))
