"""Whatever a results folder of somebody else holds, it is reported or refused with a `ResultsError`."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from fuzz.fuzzing import fuzz
from fuzz.mutations import changed_texts, changed_values
from tare.cli import session
from tare.errors import ResultsError
from tare.model.text import printable
from tare.report import render_html
from tare.report.terminal import render_text
from tare.store.results import read_only

GIVEN = Path(__file__).parents[1] / "data" / "results-0.1.0"
PLAN = json.loads((GIVEN / "plan.json").read_bytes())
FIRST, *OTHERS = (GIVEN / "trials.jsonl").read_text().splitlines()
GROWN = {"n0": {"TcpRetransSegs": 3, "run_delay_s": 0.5}, "machine localhost": {"softnet_dropped": 1}}
LINES = [json.dumps({**json.loads(FIRST), "node_counters": GROWN}), *OTHERS]
SAMPLES = tuple(sorted((GIVEN / "samples").iterdir()))
HTML_OF = 8
"""One of so many examples makes the HTML page, which takes longer than all else."""


@dataclass(frozen=True)
class Foreign:
    """What a folder holds: plan.json, the lines of trials.jsonl, one file of samples; and whether the page is drawn."""

    plan: str
    lines: tuple[str, ...]
    samples: bytes
    draws: bool


@st.composite
def folders(draw: st.DrawFn) -> Foreign:
    plan, lines, samples = json.dumps(PLAN), list(LINES), SAMPLES[0].read_bytes()
    which = draw(st.integers(0, 9))
    if which <= 3:
        plan = draw(changed_values([PLAN]).map(json.dumps) | changed_texts([plan]))
    elif which <= 7:
        at = draw(st.integers(0, len(lines) - 1))
        lines[at] = draw(changed_values([json.loads(lines[at])]).map(json.dumps) | changed_texts([lines[at]]))
    else:
        samples = draw(changed_bytes(samples))
    if draw(st.integers(0, 9)) == 0:
        lines = draw(st.permutations(lines))[: draw(st.integers(0, len(lines)))]
    return Foreign(
        plan=plan, lines=tuple(lines), samples=samples, draws=draw(st.integers(0, HTML_OF - 1)) == HTML_OF - 1
    )


@st.composite
def changed_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw bytes with a few replaced; what zip and NumPy say of themselves is in a few hundred of them."""
    changed = bytearray(data)
    told = [at for at in range(len(data)) if data[at : at + 2] in (b"PK", b"\x93N")]
    for _ in range(draw(st.integers(1, 4))):
        if told and draw(st.booleans()):
            at = draw(st.sampled_from(told)) + draw(st.integers(0, 130))
        else:
            at = draw(st.integers(0, len(data) - 1))
        new = draw(st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff" * 4, b"\0" * 8, b"|O", b"<f2"]))
        changed[at : at + len(new)] = new
    return bytes(changed[: draw(st.just(len(changed)) | st.integers(0, len(changed)))])


def write(folder: Path, foreign: Foreign) -> None:
    (folder / "plan.json").write_bytes(foreign.plan.encode("utf-8", "surrogatepass"))
    text = "".join(f"{line}\n" for line in foreign.lines)
    (folder / "trials.jsonl").write_bytes(text.encode("utf-8", "surrogatepass"))
    (folder / "samples" / SAMPLES[0].name).write_bytes(foreign.samples)


def check(folder: Path, foreign: Foreign) -> None:
    write(folder, foreign)
    try:
        results = read_only(folder)
    except ResultsError:
        return
    summary = session.summary_of(results, folder)
    text = render_text(summary, all_metrics=foreign.draws, width=100)
    assert text == printable(text, lines=True)
    for trial in results.trials:
        if Path(trial.samples_file).name == SAMPLES[0].name:
            try:
                columns = results.columns(trial)
            except ResultsError:
                return
            assert all(column.ndim == 1 for column in columns.values())
    if foreign.draws:
        try:
            render_html(summary, results.trials, results).encode("utf-8")
        except ResultsError:
            return


def test_a_results_folder_is_reported_or_refused(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(GIVEN, folder)
    fuzz(folders(), lambda foreign: check(folder, foreign))


def test_what_is_drawn_is_a_report_where_nothing_is_changed(tmp_path: Path) -> None:
    shutil.copytree(GIVEN, tmp_path / "results")
    whole = Foreign(plan=json.dumps(PLAN), lines=tuple(LINES), samples=SAMPLES[0].read_bytes(), draws=True)
    check(tmp_path / "results", whole)
