"""iperf3: one stream (or several) of TCP or UDP from the first rank's host to the last rank's, read as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from tare.model import Figure, MetricInfo, Placement
from tare.system.packages import install
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import check_single
from tare.workloads.programs.options import option_value, with_value
from tare.workloads.programs.quantities import Quantity

PAIR: Final = "tare-pair"
"""tare's program that starts iperf3's server on the last rank and its client on the first (kernels/pair)."""

USUAL_S: Final = 10.0
THIN_S: Final = "1"
LARGEST: Final = 1e300
FORBIDDEN: Final = frozenset(
    {
        "-s", "--server", "-c", "--client", "-p", "--port", "-B", "--bind", "-D", "--daemon", "--logfile", "-I",
        "--pidfile", "--json-stream",
    }
)  # fmt: skip
"""Options that `tare-pair` sets for the two sides itself, or that would hide the result."""

BIDIRECTIONAL: Final = "--bidir"
PARTS: Final = frozenset({"start", "end", "error", "event"})
"""What its JSON has: a log in JSON has none of them."""
JSON_LINE: Final = re.compile(
    r'\s*(?:[{[]?\s*"[^"]*"\s*:.*|"[^"]*",?|[][{},\s]+|[{[].*[]}],?|-?(?:\d[-+.\de]*|true|false|null|nan|inf\w*),?)\s*',
    re.IGNORECASE,
)
"""The lines that JSON can have: the others are of launchers and libraries."""
FROM_3_11: Final = "3.11"
"""The version from which the result of UDP has what the receiver saw (`sum_received`)."""
STATISTIC: Final = "mean of one run, as the receiver saw it"
QUANTITIES: Final = {
    "TCP": Quantity(key="tcp", label="iperf3 TCP", statistic=STATISTIC, done=1e9, unit="b/s"),
    "UDP": Quantity(key="udp", label="iperf3 UDP", statistic=STATISTIC, done=1e9, unit="b/s"),
}

FIGURES: Final = {
    ("sum_sent", "retransmits"): ("retransmits", "retransmissions", 1.0, ""),
    ("sum", "lost_percent"): ("loss", "datagrams lost", 1.0, "%"),
    ("sum", "jitter_ms"): ("jitter", "jitter", 1e-3, "s"),
    ("sum", "packets"): ("packets", "datagrams", 1.0, ""),
    ("cpu_utilization_percent", "host_total"): ("cpu.sender", "CPU of the sender", 1.0, "%"),
    ("cpu_utilization_percent", "remote_total"): ("cpu.receiver", "CPU of the receiver", 1.0, "%"),
}
"""What is shown, by its place in `end`: key, label, factor and unit."""


class Iperf3(ProgramAdapter):
    """The program; arguments are the client's (`-u -b 0` for UDP as fast as it goes, `-t` seconds, `-P` streams)."""

    name = "iperf3"
    describes = "iperf3 from the first rank's host to the last rank's; arguments are the client's, as -t 5, -u -b 0"
    measures = "b/s at the receiver, over TCP or UDP; also retransmissions or loss"
    versions = "3.x"
    ranks = "2 or more; those between the first and the last wait"
    timer = "iperf3's own clock on each side"
    synchronisation = "iperf3's own control connection"
    reduction = STATISTIC
    failure = re.compile(r"^iperf3: (?:error|interrupt)")
    brought_by = install("iperf3")

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        binary = program or "iperf3"
        if program and program.rsplit("/", 1)[-1] != "iperf3":
            binary = f"{program.rstrip('/')}/iperf3"
        server = (binary, "-s", "-1", "-p", "{port}")
        client = (binary, "-c", "{address}", "-p", "{port}", "-J", *arguments)
        return (PAIR, "+server", *server, "+client", *client)

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        if placement.ranks < 2:
            return f"iperf3 needs 2 ranks or more, one for each side, but the placement has {placement.ranks}"
        if BIDIRECTIONAL in arguments:
            return f"iperf3: {BIDIRECTIONAL} has a figure for each direction: measure one of them, the other with -R"
        for argument in arguments:
            if argument.partition("=")[0] in FORBIDDEN:
                return f"iperf3: leave {argument} out: tare starts both sides itself"
        return None

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return (QUANTITIES[_protocol(arguments)].info(),)

    def thin(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return with_value(arguments, THIN_S, "-t", "--time")

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        seconds = option_value(arguments, "-t", "--time")
        return 1.0 + (float(seconds) if re.fullmatch(r"[0-9]+", seconds) else USUAL_S)

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        result = _document(lines)
        if "error" in result:
            raise OutputError(f"iperf3 reports: {result['error']}")
        version = str(_at(result, "start", "version"))
        if not re.match(r"iperf 3\.\d", version):
            raise OutputError(f"iperf3: {version!r} is not supported; supported: iperf 3.x")
        protocol = _at(result, "start", "test_start", "protocol")
        if protocol != _protocol(arguments):
            raise OutputError(f"iperf3: the output is of {protocol}, not of {_protocol(arguments)}")
        if any(name.endswith("_bidir_reverse") for name in _end(result)):
            raise OutputError(f"iperf3: the output is of {BIDIRECTIONAL}, which has a figure for each direction")
        if _is_reverse(result) and not {"-R", "--reverse"} & set(arguments):
            raise OutputError("iperf3: the output is of -R, the other direction")
        received = _received(result, str(protocol))
        return Reading(metrics=(QUANTITIES[str(protocol)].ran(received),), figures=tuple(_figures(result)))


def _protocol(arguments: tuple[str, ...]) -> str:
    return "UDP" if {"-u", "--udp"} & set(arguments) else "TCP"


def _document(lines: Sequence[str]) -> dict[str, Any]:
    """Return the JSON object in a program's output, without lines that are none of JSON if they are within it."""
    try:
        return _object("\n".join(lines))
    except OutputError:
        kept = [line for line in lines if JSON_LINE.fullmatch(line)]
        with suppress(OutputError):
            return _object("\n".join(kept))
        raise


def _object(text: str) -> dict[str, Any]:
    """Return the one JSON object in a text that is a result of iperf3; other JSON objects, as of a log, are ignored."""
    found: list[dict[str, Any]] = []
    end = 0
    for start in (each.start() for each in re.finditer(r"^\{", text, re.MULTILINE)):
        if start >= end:
            one, length = _decoded(text[start:])
            end = start + length
            found += [one] if one.keys() & PARTS else []
    if not found:
        raise OutputError("iperf3: the line '{' that begins its JSON is missing")
    if "event" in found[0]:
        raise OutputError("iperf3: the output is of --json-stream, which is not supported")
    check_single(len(found), "the JSON of iperf3")
    return found[0]


def _decoded(part: str) -> tuple[dict[str, Any], int]:
    """Return the JSON object with which a text begins, and its length."""
    try:
        return json.JSONDecoder(object_pairs_hook=_once).raw_decode(part)
    except json.JSONDecodeError as error:
        if "\n" not in part[error.pos :].strip():
            raise OutputError("iperf3: the output is cut off: the '}' that ends its JSON is missing") from error
        line = part[part.rfind("\n", 0, error.pos) + 1 :].split("\n", 1)[0].strip()
        raise OutputError(f"iperf3: its JSON is broken at {line[:80]!r}: {error.msg}") from error
    except OutputError:
        raise
    except (ValueError, RecursionError) as error:
        raise OutputError(f"iperf3: its JSON is broken: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose sums are there once: before 3.10 both directions of --bidir had the same names."""
    names = [name for name, _ in pairs if name.startswith("sum")]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise OutputError(f"iperf3: {twice!r} is in its JSON twice, once for each direction of {BIDIRECTIONAL}")
    return dict(pairs)


def _is_reverse(result: Mapping[str, Any]) -> bool:
    """Return whether the server sent; a version that does not say so has no such option."""
    test = _at(result, "start", "test_start")
    return isinstance(test, Mapping) and bool(test.get("reverse"))


def _at(result: Mapping[str, Any], *keys: str) -> object:
    value: object = result
    for at, key in enumerate(keys):
        if not isinstance(value, Mapping) or key not in value:
            raise OutputError(f"iperf3: {'.'.join(keys[: at + 1])} is missing")
        value = value[key]
    return value


def _end(result: Mapping[str, Any]) -> Mapping[str, Any]:
    end = _at(result, "end")
    if not isinstance(end, Mapping):
        raise OutputError("iperf3: end is not an object")
    return end


def _number(result: Mapping[str, Any], *keys: str) -> float:
    value = _at(result, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:  # nor NaN
        raise OutputError(f"iperf3: {'.'.join(keys)} is {value}, which is not a finite number")
    return float(value)


def _received(result: Mapping[str, Any], protocol: str) -> float:
    """Return the bits a second at the receiver; older versions give those sent over UDP and the share that was lost."""
    if protocol != "UDP" or "sum_received" in _end(result):
        return _number(result, "end", "sum_received", "bits_per_second")
    if _is_reverse(result):
        raise OutputError(f"iperf3: -u with -R needs version {FROM_3_11} or later: end.sum_received is missing")
    lost = _number(result, "end", "sum", "lost_percent")
    if not 0 <= lost <= 100:
        raise OutputError(f"iperf3: end.sum.lost_percent is {lost:g}, so that what the receiver got is not known")
    return _number(result, "end", "sum", "bits_per_second") * (1 - lost / 100)


def _figures(result: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the figures that the result has: which of them, depends on protocol, version and system."""
    for (part, name), (key, label, factor, unit) in FIGURES.items():
        section = _end(result).get(part)
        if isinstance(section, Mapping) and name in section:
            value = _number(result, "end", part, name) * factor
            yield Figure(key=f"iperf3.{key}", label=f"iperf3, {label}", value=value, unit=unit)
