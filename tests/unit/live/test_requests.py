"""Only requests with the token, for our own name, get the page."""

from __future__ import annotations

import pytest

from tare.live.requests import MOST_BYTES, Asked, Refusal, Request, answer, is_whole, parse, refuse
from unit.live.callers import request

TOKEN = "secret-1"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "[::1]:80", "localhost"])
def test_the_page_is_given_for_every_name_of_this_machine(host: str) -> None:
    found = parse(request(f"/?token={TOKEN}", host), TOKEN)
    assert found == Request(asked=Asked.PAGE)


def test_a_request_for_progress_names_the_report_that_is_shown() -> None:
    found = parse(request(f"/progress?token={TOKEN}&report=3"), TOKEN)
    assert found == Request(asked=Asked.PROGRESS, report="3")
    assert parse(request(f"/?script=no&token={TOKEN}"), TOKEN) == Request(asked=Asked.PAGE, script=False)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("/"), 403),
        (request("/?token="), 403),
        (request("/?token=secret-2"), 403),
        (request("/?token=secret-"), 403),
        (request("/?token=%ff%00é"), 403),
        (request(f"/?token={TOKEN}", "rebound.example"), 403),
        (request(f"/?token={TOKEN}", "127.0.0.1.example"), 403),
        (request(f"/?token={TOKEN}", "127.0.0.1:80\r\nHost: localhost"), 403),
        (f"GET /?token={TOKEN} HTTP/1.1\r\n\r\n".encode(), 403),
        (request(f"/report.html?token={TOKEN}"), 404),
        (request(f"/../etc/passwd?token={TOKEN}"), 404),
        (request(f"/?token={TOKEN}", method="POST"), 405),
        (request(f"/?token={TOKEN}", method="HEAD"), 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (request("//[/?token=" + TOKEN), 400),
        (request("/?" + "&".join(f"a{n}=1" for n in range(100)) + f"&token={TOKEN}"), 400),
        (b"GET /" + b"a" * MOST_BYTES + b" HTTP/1.1\r\n\r\n", 431),
    ],
)
def test_a_bad_request_is_refused(data: bytes, status: int) -> None:
    assert is_whole(data)
    found = parse(data, TOKEN)
    assert isinstance(found, Refusal)
    assert found.status.value == status
    told = refuse(found)
    assert told.startswith(f"HTTP/1.1 {status} ".encode())
    assert TOKEN.encode() not in told


def test_no_answer_is_kept_framed_or_shared() -> None:
    headers = answer(b"x", "text/html").decode()
    for wanted in ("Cache-Control: no-store", "frame-ancestors 'none'", "Referrer-Policy: no-referrer", "nosniff"):
        assert wanted in headers
    assert "Access-Control" not in headers
