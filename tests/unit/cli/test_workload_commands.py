"""`tare workloads` lists all that a study can run, with how figures are taken and what is missing."""

from __future__ import annotations

import json

import pytest

from tare.cli.workload_commands import as_data, as_text, missing_of, show_workloads
from tare.study import KNOWN, parse
from tare.workloads.catalogue import CatalogueEntry, entries
from tare.workloads.declared import MINIAPPS
from unit.adapters import ExampleAdapter
from unit.study_texts import ENVIRONMENTS


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> CatalogueEntry:
    for module in ("tare.workloads.catalogue", "tare.cli.workload_commands"):
        monkeypatch.setattr(f"{module}.PROGRAMS", {"example": ExampleAdapter()})
    return next(entry for entry in entries() if entry.name == "example")


def test_every_workload_is_listed_once_with_all_that_it_declares() -> None:
    found = entries()
    names = [entry.name for entry in found]
    assert len({entry.stated for entry in found}) == len(found)
    assert set(KNOWN.kernels) | set(MINIAPPS) | {"command", "startup"} <= set(names)
    for entry in found:
        for declared in (entry.describes, entry.measures, entry.ranks, entry.timer, entry.synchronisation):
            assert declared.strip()
        assert entry.reduction.strip()


def test_what_is_listed_can_be_put_into_a_study_as_it_is() -> None:
    for entry in entries():
        if entry.family != "program":
            parse(f"{ENVIRONMENTS}workloads: {{w: {{{entry.stated}}}}}")


def test_a_program_that_is_missing_says_what_to_do(example: CatalogueEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    reason = missing_of(example)
    assert reason == "example is not here: apt-get install example"
    text = as_text([(example, reason)])
    assert text.splitlines()[0] == "third-party programs"
    assert "  missing example  `program: example`  a program that does not exist (1 and 2)" in text
    assert f"missing: {reason}" in text


def test_without_any_mpi_ours_are_missing_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent:
        is_fake = False

        @staticmethod
        def probe() -> str:
            return "it is not here: apt-get install it"

    entry = next(entry for entry in entries() if entry.name == "npb-cg")
    monkeypatch.setattr("tare.cli.workload_commands.MPIS", {"openmpi": Absent, "mpich": Absent})
    assert missing_of(entry) == "it is not here: apt-get install it"
    monkeypatch.setattr(Absent, "probe", staticmethod(lambda: None))
    assert missing_of(entry) == ""


def test_json_has_everything(example: CatalogueEntry, capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(as_data([(example, ""), (example, "gone")]))
    assert [(each["available"], each["missing"]) for each in listed] == [(True, None), (False, "gone")]
    assert listed[0]["synchronisation"] == "none"
    show_workloads(as_json=True)
    assert {each["name"] for each in json.loads(capsys.readouterr().out)} == {entry.name for entry in entries()}
    show_workloads(as_json=False)
    printed = capsys.readouterr().out
    assert "miniapp: npb-cg:class=S" in printed
    assert "apt-get install example" in printed or "ok      example" in printed
