"""Many trials: what they have in common is stored once, and work grows with their number and not with its square."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import large_results
from counted_calls import count_calls
from tare.cli import commands
from tare.cli.afterwards.explain_command import explain_results
from tare.cli.afterwards.options import ExplainOptions
from tare.errors import InfrastructureError, ResultsError
from tare.model import Plan, Trial
from tare.store import results_folder
from tare.store.codec import encode
from tare.store.line_keys import LineKeys
from tare.store.shared import Shared, digest_of, dump, line_of, read_lines
from tare.store.trial_lines import LineWriter
from tare.store.writer import Store, read_only

PLAN = large_results.plan_of(environments=5, groups=2, rounds=4)
TRIALS = [trial for trial, _ in large_results.trials_of(PLAN)]
REFERENCES = ("metrics", "argv", "noise", "ranks", "traffic", "mpi_library", "facts")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    large_results.write(tmp_path / "r", PLAN, samples=False)
    return tmp_path / "r"


def stored_lines(folder: Path) -> list[bytes]:
    return (folder / "trials.jsonl").read_bytes().splitlines()


# --- what is stored comes back ------------------------------------------------------------------------------------


def test_what_recurs_is_a_reference_and_the_whole_line_can_be_had_from_json_alone(folder: Path) -> None:
    shared, _, bad = read_lines((folder / "shared.jsonl").read_bytes())
    assert bad == []
    line = next(json.loads(line) for line in stored_lines(folder) if b"Completed" in line)
    assert all("$ref" in {**line, **line["outcome"]}[name] for name in REFERENCES)
    whole = shared.filled(line)
    original = next(trial for trial in TRIALS if encode(trial.key) == whole["key"])
    assert {name: value for name, value in whole.items() if name != "outcome"} == {
        name: value for name, value in encode(original).items() if name != "outcome"
    }
    values = [metric["value"] for metric in whole["outcome"]["metrics"]]
    assert values == [metric.value for metric in original.outcome.metrics]  # type: ignore[union-attr]


def test_a_trial_takes_less_than_two_kilobytes_on_average(tmp_path: Path) -> None:
    plan = large_results.plan_of(environments=11, groups=1, rounds=40)
    count = large_results.write(tmp_path / "r", plan, samples=False)
    size = sum((tmp_path / "r" / name).stat().st_size for name in ("trials.jsonl", "shared.jsonl"))
    assert count == 440
    assert size / count < 2000
    assert len(dump(encode(next(large_results.trials_of(plan))[0]))) > 2.5 * size / count


def test_a_folder_of_an_earlier_format_goes_on_in_the_new_one_and_its_lines_stay(tmp_path: Path) -> None:
    first, *rest = TRIALS
    again = [replace(trial, key=replace(trial.key, attempt=1)) for trial in rest[:4]]
    Store.create_or_open(tmp_path / "r", PLAN).close()
    old = dump(encode(first)) + b"\n"
    (tmp_path / "r" / "trials.jsonl").write_bytes(old)
    header = json.loads((tmp_path / "r" / "plan.json").read_text())
    (tmp_path / "r" / "plan.json").write_text(json.dumps(header | {"format": 1}))
    (tmp_path / "r" / "shared.jsonl").unlink()
    with Store.create_or_open(tmp_path / "r", PLAN) as store:
        for trial in again:
            store.append(trial)
    assert json.loads((tmp_path / "r" / "plan.json").read_text())["format"] == 2
    assert (tmp_path / "r" / "trials.jsonl").read_bytes().startswith(old)
    trials = read_only(tmp_path / "r").trials
    assert (trials[0], trials[-4:]) == (first, again)


# --- no work grows faster than the results ------------------------------------------------------------------------


def calls_for(path: Path, plan: Plan) -> dict[str, int]:
    large_results.write(path, plan, samples=False)

    def resume() -> None:
        with Store.create_or_open(path, plan) as store:
            assert not list(store.ledger.remaining(plan))

    return {
        "append": count_calls(lambda: large_results.write(path.with_name(f"{path.name}-again"), plan, samples=False)),
        "resume": count_calls(resume),
        "explain": count_calls(lambda: explain_results(ExplainOptions(results=path))),
        "report": count_calls(lambda: commands.show_report(path, path / "report.html")),
    }


@pytest.mark.parametrize(("few", "many"), [((1, 12), (1, 24)), ((2, 6), (4, 6))], ids=["rounds", "groups"])
def test_twice_the_trials_take_twice_the_calls(
    few: tuple[int, int], many: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = [large_results.plan_of(environments=3, groups=groups, rounds=rounds) for groups, rounds in (few, many)]
    large_results.write(tmp_path / "first", plans[1], samples=False)
    commands.show_report(tmp_path / "first", tmp_path / "first.html")  # imports and caches
    explain_results(ExplainOptions(results=tmp_path / "first"))
    calls = [calls_for(tmp_path / str(number), plan) for number, plan in enumerate(plans)]
    for what in calls[0]:
        assert calls[1][what] < 2.2 * calls[0][what], (what, calls)
    assert f"{2 * len(plans[0].cells) * few[1]:,} launches" in capsys.readouterr().out


def test_a_resumed_run_neither_decodes_nor_parses_lines_as_tare_writes_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[bytes] = []

    def note(line: bytes) -> object:
        parsed.append(line)
        return json.loads(line)

    monkeypatch.setattr("tare.store.line_keys.parse", note)
    with Store.create_or_open(folder, PLAN) as store:
        assert store.count == len(TRIALS)
        assert store.ledger.keys == {trial.key for trial in TRIALS}
    assert all(b"\\" in line for line in parsed)
    with monkeypatch.context() as patch:
        patch.setattr("tare.store.trial_lines.TrialLines.decode", lambda _self, _line: pytest.fail("decoded"))
        with Store.create_or_open(folder, PLAN) as store:
            assert store.ledger.launches == len(TRIALS)
            store.append(replace(TRIALS[0], key=replace(TRIALS[0].key, repeat=1)))
    assert len(read_only(folder).trials) == len(TRIALS) + 1


PLAIN = next(line for line in LineWriter(Shared()).encode(TRIALS)[0].splitlines() if b"Completed" in line)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"round":0', b'"round": 0', ""),
        (b'"round":0', b'"round":00', "delimiter"),
        (b'"round":0', b'"round":' + b"1" * 20, "more than 64 bits"),
        (b'"round":0', b'"round":0.0', "instead of int"),
        (b'"round":0', b'"round":true', "instead of int"),
        (b'"Completed"', b'"Undone"', "is not an outcome"),
        (b'"Completed"', b'"Completed","type":"Failed"', ""),
        (b'"samples_file":""', b'"samples_file":"samples/a","samples_file":""', ""),
        (b'"samples_file":""', b'"samples_file":"samples/\\u0061"', ""),
        (b'"samples_file":""', b'"samples_file":"samples/\xff"', "can't decode"),
        (b'"samples_file":""', b'"samples_file":"\x01"', "control character"),
        (b'"samples_file":""', b'"samples_file":null', "instead of str"),
        (b'"counters":{', b'"counters":[', "delimiter"),
        (b'"counters":{', b'"counters":{"a":.5,', "Expecting value"),
        (b'"counters":{', b'"counters":{"a":01,', "delimiter"),
        (b'"counters":{', b'"counters":{"a":NaN,', "not a JSON number"),
        (b'"counters":{', b'"counters":{"a":[[[[1]]]],', ""),
        (b'"cell":"', b'"cell":"other', ""),
        (b'"type":"Trial"', b'"type":"Other"', ""),
    ],
)
def test_a_line_as_no_tare_writes_it_is_read_as_json(old: bytes, new: bytes, why: str) -> None:
    keys = LineKeys(frozenset(cell.key for cell in PLAN.cells))
    line = PLAIN.replace(old, new, 1)
    assert line != PLAIN
    if why:
        with pytest.raises(ValueError, match=why):
            keys.read(line)
        return
    data = json.loads(line)
    key, outcome, file = keys.read(line)
    assert (encode(key), outcome, file) == (data["key"], data["outcome"]["type"], data["samples_file"])


# --- crashes --------------------------------------------------------------------------------------------------------


def test_a_part_is_on_the_disk_before_the_line_that_refers_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    append = results_folder.Lines.append

    def note(lines: results_folder.Lines, data: bytes) -> None:
        append(lines, data)
        written.append(data)

    monkeypatch.setattr(results_folder.Lines, "append", note)
    with Store.create_or_open(tmp_path / "r", PLAN) as store:
        store.append(TRIALS[0])
        store.append(replace(TRIALS[0], key=replace(TRIALS[0].key, repeat=1)))
    assert [data.startswith(b'{"digest":') for data in written] == [True, False, False]


@pytest.mark.parametrize("tail", [b'{"digest":"abc', b"\0\0\0", b'{"digest":"aaaaaaaaaaaaaaaa","value":{}}\n'])
def test_a_torn_part_is_dropped_because_no_line_refers_to_it(folder: Path, tail: bytes) -> None:
    whole = (folder / "shared.jsonl").read_bytes()
    (folder / "shared.jsonl").write_bytes(whole + tail)
    assert read_only(folder).trials == TRIALS
    Store.create_or_open(folder, PLAN).close()
    assert (folder / "shared.jsonl").read_bytes() == whole


def test_parts_without_a_line_harm_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = results_folder.Lines.append
    other = replace(TRIALS[0], key=replace(TRIALS[0].key, repeat=1), facts={"mtu": "9000", "other": "x" * 99})

    def full(lines: results_folder.Lines, data: bytes) -> None:
        if b'"Trial"' in data:
            raise OSError(28, "No space left on device")
        append(lines, data)

    before = stored_lines(folder)
    with Store.create_or_open(folder, PLAN) as store:
        with monkeypatch.context() as patch:
            patch.setattr(results_folder.Lines, "append", full)
            with pytest.raises(InfrastructureError, match="No space left on device"):
                store.append(other)
        assert stored_lines(folder) == before
        store.append(other)
    assert read_only(folder).trials == [*TRIALS, other]


# --- results of others ----------------------------------------------------------------------------------------------


def with_part(folder: Path, name: str, part: object, values: object = None) -> Path:
    """Make the first trial refer to a part that nobody wrote."""
    text = dump(part)
    with open(folder / "shared.jsonl", "ab") as file:
        file.write(line_of(digest_of(text), text))
    line = json.loads(stored_lines(folder)[0])
    reference = {"$ref": digest_of(text)} | ({} if values is None else {"values": values})
    (line["outcome"] if name == "metrics" else line)[name] = reference
    return with_first(folder, line)


def with_first(folder: Path, line: object) -> Path:
    """Put this line in place of the first trial."""
    (folder / "trials.jsonl").write_bytes(b"\n".join([dump(line), *stored_lines(folder)[1:], b""]))
    return folder


RANK = {"rank": 0, "host": "h", "hostname": "h", "pid": None, "cpus": [0]}
TRAFFIC = {"node": "n", "interface": "i", "role": "r", "rx_packets": 0, "tx_packets": 0, "tx_bytes": 0}
METRIC = {"key": "k", "label": "k", "kind": "cost", "value": None}
NESTED: object = 0
for _ in range(40):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("name", "part", "values", "why"),
    [
        ("ranks", [RANK], "1 2", "found 2 values for 1 places"),
        ("ranks", [RANK], "", "invalid literal"),
        ("ranks", [RANK], None, "found None instead of str"),
        ("ranks", [RANK], [1], "found \\[1\\] instead of str"),
        ("ranks", [RANK], "1.5", "invalid literal"),
        ("ranks", [RANK], "9" * 30, "a number has more than 25 characters"),
        ("ranks", [RANK | {"rank": None}], "1 2", "a part lacks a value that does not vary"),
        ("ranks", [RANK | {"rank": -1}], "1", "a rank is number -1"),
        ("ranks", [RANK | {"namespaces": None}], "1 2", "a gap in place of a whole object"),
        ("ranks", [RANK | {"more": None}], "1 2", "a gap in 'more'"),
        ("ranks", [RANK | {"cpus": "0"}], "1", "found '0' instead of list"),
        ("ranks", {"rank": None}, "1", "instead of list"),
        ("ranks", None, "1", "a part lacks a value that does not vary"),
        ("ranks", NESTED, None, "nested more than 32 levels deep"),
        ("ranks", [{"pid": None}], "1", "RankPlace lacks rank"),
        ("traffic", [TRAFFIC | {"rx_bytes": None}], "-1", "rx_bytes is -1"),
        ("traffic", [TRAFFIC | {"rx_bytes": -1}], None, "rx_bytes is -1"),
        ("metrics", [METRIC], "x", "could not convert"),
        ("metrics", [METRIC | {"kind": None}], "1 2", "a part lacks a value that does not vary"),
        ("noise", {"cores": None}, "1e99", "noise has 'cores' of 1e\\+99"),
        ("noise", {"cores": None}, "nan", "noise has 'cores' of nan"),
        ("argv", ["a", None], "b", "found 'b' instead of list"),
        ("argv", ["a", None], [1], "found 1 instead of str"),
        ("argv", ["a", [None]], ["b"], "gaps where nothing varies"),
        ("facts", {"mtu": None}, "1500", "a part lacks a value that does not vary"),
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
    line = json.loads(lines[-1])
    line["traffic"]["values"] = "-" + line["traffic"]["values"]
    (folder / "trials.jsonl").write_bytes(b"\n".join([*lines[:-1], dump(line), b""]))
    with pytest.raises(ResultsError, match=rf"trials\.jsonl:{len(lines)}: .*traffic has a value that is not a count"):
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
    for opened in (lambda: read_only(folder), lambda: Store.create_or_open(folder, PLAN)):
        with pytest.raises(ResultsError, match=r"shared\.jsonl:2: this line is damaged"):
            opened()
    (folder / "shared.jsonl").unlink()
    with pytest.raises(ResultsError, match=r"trials\.jsonl:1: .*shared\.jsonl lacks the part"):
        read_only(folder)


def test_trials_that_share_more_than_any_study_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.store.shared.MOST_FILLED_BYTES", 20_000)
    with pytest.raises(ResultsError, match="GiB of shared facts"):
        read_only(folder)


def test_two_parts_of_one_digest_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.store.trial_lines.digest_of", lambda _text: "aaaaaaaaaaaaaaaa")
    trial: Trial = TRIALS[0]
    lines, parts = LineWriter(Shared()).encode([trial])
    shared = Shared()
    for digest, text in parts.items():
        shared.add(digest, text)
    assert shared.filled(json.loads(lines))["facts"] == encode(trial)["facts"]
    assert len(parts) == 1
