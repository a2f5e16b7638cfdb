"""Lines of tare 0.2.0 that refer to shared.jsonl are whole records when they are read, and bounded as those are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tare.errors import ResultsError
from tare.store.results import Results, read_only
from tare.store.shared import digest_of
from tare.store.writer import Store

GIVEN = Path(__file__).parents[2] / "data" / "results-0.2.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(GIVEN, tmp_path / "results")


def stored_lines(folder: Path) -> list[bytes]:
    return (folder / "trials.jsonl").read_bytes().splitlines()


def add_part(folder: Path, part: object) -> str:
    """Add a part that nobody wrote, and return its digest."""
    text = json.dumps(part, separators=(",", ":")).encode()
    with open(folder / "shared.jsonl", "ab") as file:
        file.write(b'{"digest":"%b","value":%b}\n' % (digest_of(text).encode(), text))
    return digest_of(text)


def with_part(folder: Path, name: str, part: object, values: object = None) -> Path:
    """Make the first trial refer to a part that nobody wrote."""
    line = json.loads(stored_lines(folder)[0])
    reference = {"$ref": add_part(folder, part)} | ({} if values is None else {"values": values})
    (line["outcome"] if name == "metrics" else line)[name] = reference
    return with_first(folder, line)


def with_first(folder: Path, line: object) -> Path:
    """Put this line in place of the first trial."""
    first = json.dumps(line, separators=(",", ":")).encode()
    (folder / "trials.jsonl").write_bytes(b"\n".join([first, *stored_lines(folder)[1:], b""]))
    return folder


def open_store(folder: Path) -> Store:
    results = read_only(GIVEN)
    return Store.create_or_open(folder, results.plan, results.facts)


RANK = {"rank": 0, "host": "h", "hostname": "h", "pid": None, "cpus": [0]}
TRAFFIC = {"node": "n", "interface": "i", "role": "r", "rx_packets": 0, "tx_packets": 0, "tx_bytes": 0}
METRIC = {"key": "k", "label": "k", "kind": "cost", "value": None}
NESTED: object = 0
for _ in range(40):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("name", "part", "values", "why"),
    [
        ("ranks", [RANK], "1 2", "2 values are more than the places"),
        ("ranks", [RANK], "", "0 values are fewer than the places"),
        ("ranks", [RANK], None, "0 values are fewer than the places"),
        ("ranks", [RANK], {"a": 1}, "found {'a': 1} instead of list"),
        ("ranks", [RANK], "1.5", "found 1.5 instead of int"),
        ("ranks", [RANK], "1] , [2", "Extra data"),
        ("ranks", [RANK], "9" * 30, "more than 64 bits"),
        ("ranks", [RANK | {"rank": None}], "-1 2", "rank is -1"),
        ("ranks", [RANK | {"rank": -1}], "1", "rank is -1"),
        ("ranks", [RANK | {"namespaces": None}], "1 2", "found 2 instead of dict"),
        ("ranks", [RANK | {"cpus": "0"}], "1", "found '0' instead of list"),
        ("ranks", {"rank": None}, "1", "instead of list"),
        ("ranks", None, "1", "instead of list"),
        ("ranks", NESTED, None, "nested more than 32 levels deep"),
        ("ranks", [{"pid": None}], "1", "RankPlace lacks rank"),
        ("traffic", [TRAFFIC | {"rx_bytes": None}], "-1", "rx_bytes is -1"),
        ("traffic", [TRAFFIC | {"rx_bytes": -1}], None, "rx_bytes is -1"),
        ("metrics", [METRIC], "x", "Expecting value"),
        ("metrics", [METRIC | {"kind": None}], "1 2", "is not one of"),
        ("noise", {"cores": None}, "1e99", "noise has 'cores' of 1e\\+99"),
        ("noise", {"cores": None}, "nan", "Expecting value"),
        ("noise", {"cores": None}, "NaN", "is not a JSON number"),
        ("argv", ["a", None], "b", "Expecting value"),
        ("argv", ["a", None], [1], "found 1 instead of str"),
        ("argv", ["a", [None]], ["b"], "instead of str"),
        ("facts", {"mtu": None}, "1500", ""),
        ("mpi_library", 7, None, "found 7 instead of str"),
        ("mpi_library", 10**40, None, "more than 64 bits"),
    ],
)
def test_a_part_that_does_not_fit_is_named_with_its_line(
    folder: Path, name: str, part: object, values: object, why: str
) -> None:
    with pytest.raises(ResultsError, match=rf"trials\.jsonl:1: this line is not a trial \(.*{why}"):
        read_only(with_part(folder, name, part, values))


def test_a_negative_count_behind_a_valid_one_is_found_too(folder: Path) -> None:
    lines = stored_lines(folder)
    line = json.loads(lines[-2])
    line["traffic"]["values"] = "-" + line["traffic"]["values"]
    (folder / "trials.jsonl").write_bytes(b"\n".join([*lines[:-2], json.dumps(line).encode(), lines[-1], b""]))
    with pytest.raises(ResultsError, match=rf"trials\.jsonl:{len(lines) - 1}: .* ran backwards: rx_bytes is -"):
        read_only(folder)


@pytest.mark.parametrize("digest", ["aaaaaaaaaaaaaaaa", "", 7, None, []])
def test_a_reference_to_nothing_is_named(folder: Path, digest: object) -> None:
    line = json.loads(stored_lines(folder)[0])
    line["ranks"]["$ref"] = digest
    with pytest.raises(ResultsError, match=r"trials\.jsonl:1: this line is not a trial \((shared\.jsonl lacks|found)"):
        read_only(with_first(folder, line))


def test_missing_and_damaged_parts_are_named(folder: Path) -> None:
    first, second, *rest = (folder / "shared.jsonl").read_bytes().splitlines()
    (folder / "shared.jsonl").write_bytes(b"\n".join([first, second.replace(b":", b";", 3), *rest, b""]))
    for opened in (read_only, open_store):
        with pytest.raises(ResultsError, match=r"shared\.jsonl:2: this line is damaged"):
            opened(folder)
    (folder / "shared.jsonl").unlink()
    with pytest.raises(ResultsError, match=r"trials\.jsonl:1: .*shared\.jsonl lacks the part"):
        read_only(folder)


def test_of_a_damaged_part_the_trials_that_need_it_are_left_out(folder: Path) -> None:
    first, *rest = (folder / "shared.jsonl").read_bytes().splitlines()
    digest = json.loads(first)["digest"].encode()
    (folder / "shared.jsonl").write_bytes(b"\n".join([first[:-5] + b"xxxxx", *rest, b""]))
    results = read_only(folder, skip_damaged=True)
    need = [number for number, line in enumerate(stored_lines(folder), start=1) if digest in line]
    assert [(item.file, item.line) for item in results.damaged] == [
        ("shared.jsonl", 1),
        *(("trials.jsonl", number) for number in need),
    ]
    assert len(results.trials) == len(stored_lines(folder)) - len(need) > 0 < len(need)


@pytest.mark.parametrize("tail", [b'{"digest":"abc', b"\0\0\0", b'{"digest":"aaaaaaaaaaaaaaaa","value":{}}\n'])
def test_a_torn_part_is_passed_over_because_no_line_refers_to_it(folder: Path, tail: bytes) -> None:
    with open(folder / "shared.jsonl", "ab") as file:
        file.write(tail)
    assert read_only(folder).trials == read_only(GIVEN).trials
    with open_store(folder) as store:
        assert store.trials == read_only(GIVEN).trials
    assert (folder / "shared.jsonl").read_bytes().endswith(tail)


def test_a_small_folder_that_would_fill_the_memory_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = add_part(folder, {**{f"{number:x}": 1 for number in range(3000)}, "z": None})
    line = json.loads(stored_lines(folder)[0]) | {"noise": {"$ref": digest, "values": "1"}}
    with (folder / "trials.jsonl").open("w") as file:
        for round_ in range(20):
            file.write(json.dumps({**line, "key": {**line["key"], "round": round_}}) + "\n")
    assert len(read_only(folder).trials) == 20
    monkeypatch.setattr("tare.store.shared.MOST_FILLED", 40_000)
    with pytest.raises(ResultsError, match=r"trials\.jsonl:1\d: .* refer to more than 40,000 values"):
        read_only(folder)


def test_a_damaged_fact_in_a_part_is_left_out_of_every_trial(folder: Path) -> None:
    rights = {"uid_map": "1 2 3 4 5", "capabilities": "0", "by": "root", "setuid": "none"}
    with_part(folder, "ranks", [RANK | {"rights": rights}], "17")
    with_part(folder, "facts", {"mtu": "1" * 70_000, "a": "b"})
    results = read_only(folder)
    assert (results.trials[0].ranks[0].pid, results.trials[0].facts) == (17, {"a": "b"})
    assert tuple(results.trials[0].ranks[0].rights) == ("capabilities", "by", "setuid")
    assert results.damaged_facts == ("mtu", "uid_map")


def test_what_steers_a_terminal_in_a_part_is_shown_and_not_obeyed(folder: Path) -> None:
    def printed(results: Results) -> Any:
        return results.trials[0].argv

    assert printed(read_only(with_part(folder, "argv", ["a\x1b[2J", None], ["\x1b]0;"]))) == ("a\\x1b[2J", "\\x1b]0;")
    with open_store(folder) as store:
        assert printed(store) == ("a\x1b[2J", "\x1b]0;")
