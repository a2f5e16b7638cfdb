"""Read requests of the live page and write answers. Pure: bytes in, bytes out."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlsplit

MOST_BYTES: Final = 16 << 10
"""Largest size of a request; browsers send about one KB."""
MOST_FIELDS: Final = 8
OUR_HOST: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.ASCII)
"""A page of another site whose name resolves to 127.0.0.1 (DNS rebinding) sends its own name. Any port: `ssh -L`."""
END: Final = b"\r\n\r\n"
HEADERS: Final = (
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Resource-Policy: same-origin",
    "Cross-Origin-Opener-Policy: same-origin",
    "Content-Security-Policy: frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Connection: close",
)


class Asked(Enum):
    """What a request asks for."""

    PAGE = "/"
    PROGRESS = "/progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A valid request. `report` is the number of the report that the page shows; `script`: it can ask for progress."""

    asked: Asked
    report: str = ""
    script: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that gets no page."""

    status: HTTPStatus
    text: str


def is_whole(data: bytes | bytearray) -> bool:
    """Tell whether a request can be answered: its headers are complete, or it is too large."""
    return END in data or len(data) > MOST_BYTES


def parse(data: bytes, token: str) -> Request | Refusal:
    """Return what a whole request asks for, or why it is refused."""
    if END not in data[: MOST_BYTES + len(END)]:
        return Refusal(status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text="the request is too large")
    first, *lines = data.partition(END)[0].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Refusal(status=HTTPStatus.BAD_REQUEST, text="this is no request of HTTP 1")
    method, target, _ = words
    if method != "GET":
        return Refusal(status=HTTPStatus.METHOD_NOT_ALLOWED, text="only GET is answered")
    hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
    if len(hosts) != 1 or not OUR_HOST.fullmatch(hosts[0]):
        return Refusal(status=HTTPStatus.FORBIDDEN, text="open the page as 127.0.0.1 or localhost")
    try:
        url = urlsplit(target)
        fields = parse_qs(url.query, max_num_fields=MOST_FIELDS)
    except ValueError:
        return Refusal(status=HTTPStatus.BAD_REQUEST, text="the address is not valid")
    given = fields.get("token", [""])[-1]
    if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        return Refusal(
            status=HTTPStatus.FORBIDDEN, text="the token is missing or wrong: copy the whole address from the terminal"
        )
    try:
        asked = Asked(url.path)
    except ValueError:
        return Refusal(status=HTTPStatus.NOT_FOUND, text="there is no such page")
    return Request(asked=asked, report=fields.get("report", [""])[-1], script=fields.get("script") != ["no"])


def answer(body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> bytes:
    """Return a whole answer; `kind` is its media type."""
    headers = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {kind}; charset=utf-8",
        f"Content-Length: {len(body)}",
        *HEADERS,
        *(("Allow: GET",) if status is HTTPStatus.METHOD_NOT_ALLOWED else ()),
    )
    return "\r\n".join(headers).encode() + END + body


def refuse(refusal: Refusal) -> bytes:
    """Return the answer to a refused request."""
    return answer(f"tare: {refusal.text}\n".encode(), "text/plain", refusal.status)
