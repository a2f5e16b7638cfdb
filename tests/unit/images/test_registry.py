"""Images are pushed by skopeo to the right place, and what it says becomes an error with what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.errors import ImageError, InfrastructureError, MissingTool, TareError, UsageError
from tare.images.registry import push as pushing
from tare.images.registry.push import command, push
from tare.images.registry.reference import is_loopback, parse
from unit.scripts import script

DIGEST = f"sha256:{'0' * 64}"
AWAY = parse("reg.example/group/tare:1", "x")
HERE = parse("127.0.0.1:5000/group/tare:1", "x")
PINGING = 'trying to reuse blob sha256:0 at destination: pinging container registry reg.example: Get "https://x/v2/"'
NO_TLS = f"{PINGING}: http: server gave HTTP response to HTTPS client"
FAILED = InfrastructureError
Skopeo = Callable[[str], Path]


@pytest.fixture
def skopeo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Skopeo:
    """Return what writes a skopeo that does `text`, and notes its arguments in the file that is returned."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def written(text: str) -> Path:
        script(tmp_path / "skopeo", f'echo "$@" >> {tmp_path}/asked\n{text}')
        return tmp_path / "asked"

    return written


def fatal(message: str) -> str:
    quoted = message.replace('"', r"\"")
    return f"""cat >&2 <<'END'\ntime="2026-11-30T20:17:13Z" level=fatal msg="{quoted}"\nEND\nexit 1"""


def test_an_image_is_pushed_as_it_is_and_its_digest_returned(skopeo: Skopeo, tmp_path: Path) -> None:
    asked = skopeo(f"echo {DIGEST}")
    said: list[str] = []
    assert push(tmp_path / "image.oci.tar", AWAY, progress=said.append) == DIGEST
    assert said == ["pushing the image to reg.example/group/tare:1"]
    (argv,) = asked.read_text().splitlines()
    assert argv.split() == list(command(tmp_path / "image.oci.tar", AWAY, checked=True))[1:]
    assert {"--preserve-digests", "--dest-tls-verify=true", "docker://reg.example/group/tare:1"} <= set(argv.split())


def test_the_path_of_an_image_may_have_a_colon_at_which_skopeo_divides_it(skopeo: Skopeo, tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "image.oci.tar").touch()
    asked = skopeo(f"test -f image.oci.tar && echo {DIGEST}")
    assert push(folder / "image.oci.tar", AWAY) == DIGEST
    assert " oci-archive:image.oci.tar docker://" in asked.read_text()


def test_tls_is_left_out_on_this_machine_or_if_the_user_says_so(skopeo: Skopeo) -> None:
    asked = skopeo(f'case "$*" in *verify=false*) echo {DIGEST}; exit;; esac\n{fatal(NO_TLS)}')
    assert push(Path("image.tar"), HERE) == DIGEST
    assert push(Path("image.tar"), AWAY, plain_http=True) == DIGEST
    asked.unlink()
    with pytest.raises(InfrastructureError) as caught:
        push(Path("image.tar"), AWAY)
    assert "--plain-http" in caught.value.remedy
    assert asked.read_text().count("\n") == 1
    skopeo(fatal(f"{PINGING}: x509: certificate signed by unknown authority"))
    asked.unlink()
    with pytest.raises(InfrastructureError, match="x509"):
        push(Path("image.tar"), HERE)
    assert asked.read_text().count("\n") == 1, "a certificate that is not trusted is not left unchecked"


@pytest.mark.parametrize(
    ("message", "error", "words", "remedy"),
    [
        (f"{PINGING}: x509: certificate signed by unknown authority", FAILED, "x509: certificate signed",
         "/etc/docker/certs.d/reg.example/ca.crt"),
        (f"{PINGING}: dial tcp: lookup reg.example: no such host", FAILED, "no such host", "name and port"),
        (f"{PINGING}: EOF", FAILED, '"https://x/v2/": EOF', "check that it is a registry"),
        ("checking whether a blob exists in reg.example/group/tare: unauthorized: authentication required",
         FAILED, "unauthorized", "may push to group/tare: skopeo login reg.example"),
        ("initiating layer upload: denied: requested access to the resource is denied", FAILED, "denied",
         "use a repository"),
        ("writing manifest: name unknown: project x not found", FAILED, "name unknown", "to be made first"),
        ("writing blob: unexpected EOF", FAILED, "unexpected EOF", "run the same command again"),
        ("happened during read: Digest did not match, expected sha256:0", ImageError, "is damaged", "again"),
        ("initializing source oci-archive:x: open index.json", ImageError, "is damaged", "build it again"),
        ("Invalid destination name docker://[::1]:5000/a:1: invalid reference format", FAILED, "reference format",
         "by its host name"),
        ("evil \x1b[2J", FAILED, "evil", "run the same command again"),
    ],
)  # fmt: skip
def test_a_push_that_fails_says_why_and_what_to_do(
    message: str, error: type[TareError], words: str, remedy: str, skopeo: Skopeo
) -> None:
    skopeo(fatal(message))
    with pytest.raises(error) as caught:
        push(Path("image.tar"), AWAY)
    assert words in caught.value.message
    assert remedy in caught.value.remedy
    assert "\x1b" not in str(caught.value)


def test_what_a_keeper_of_passwords_prints_is_never_shown(skopeo: Skopeo) -> None:
    secret = "s3cret-pass"
    kept = r"\n\t* error getting credentials - err: exit status 3, out: `"
    skopeo(f"echo {secret} >&2\n" + fatal(f"getting username and password: 1 error occurred:{kept}{secret}`"))
    with pytest.raises(InfrastructureError, match="the login that is kept for") as caught:
        push(Path("image.tar"), AWAY)
    assert "skopeo login reg.example" in caught.value.remedy
    assert secret not in str(caught.value) + repr(caught.value)


def test_without_skopeo_a_push_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing.process, "find", lambda _: None)
    with pytest.raises(MissingTool, match="skopeo is not installed") as caught:
        push(tmp_path / "image.tar", AWAY)
    assert "install skopeo" in caught.value.remedy


def test_loopback_is_known() -> None:
    assert all(is_loopback(host) for host in ("localhost", "localhost:5000", "127.0.0.1:80", "[::1]:5000", "127.1.2.3"))
    assert not any(is_loopback(host) for host in ("reg.example", "10.0.0.1:5000", "localhost.example", "127.example"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reg.example/a/b:1", ("reg.example", "a/b", "1")),
        ("localhost/a", ("localhost", "a", "auto")),
        ("127.0.0.1:5000/a__b/c-d:v1.2", ("127.0.0.1:5000", "a__b/c-d", "v1.2")),
        ("[::1]:5000/a", ("[::1]:5000", "a", "auto")),
        ("REG.example/a", ("reg.example", "a", "auto")),
        ("docker.io/me/a", ("docker.io", "me/a", "auto")),
    ],
)
def test_a_reference_has_host_repository_and_tag(text: str, expected: tuple[str, str, str]) -> None:
    found = parse(text, "auto")
    assert (found.host, found.repository, found.tag) == expected
    assert found.by_digest("sha256:0") == f"{found.host}/{found.repository}@sha256:0"


@pytest.mark.parametrize(
    "text",
    ["", "a", "a/b", "reg.example", "reg.example/", "reg.example/A", "reg.example/a:", "reg.example/a@sha256:0",
     "reg.example/../a", "https://reg.example/a", "reg.example/a:b:c", "-reg.example/a", "reg.example/a b"],
)  # fmt: skip
def test_a_reference_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, "auto")
    assert caught.value.remedy


@settings(max_examples=50)
@given(st.text(max_size=30))
def test_any_text_is_a_reference_or_a_usage_error(text: str) -> None:
    try:
        assert str(parse(text, "auto")).count("/") >= 1
    except UsageError:
        pass
