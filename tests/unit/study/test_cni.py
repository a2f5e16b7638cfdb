"""`network: {cni: PATH}` in a study: its forms, its path, and what is told where the configuration is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.cli.launch_command import Wanted, make_plan
from tare.errors import StudyError
from tare.plan.cells import digest
from tare.study import environment, parse

REST = "\nworkloads: {w: {kernels: [barrier]}}\n"
GOOD = '{"name": "x", "type": "ptp", "ipam": {"type": "static", "addresses": [{"address": "${cidr}"}]}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.conf").write_text(GOOD)
    (tmp_path / "bad.conf").write_text('{"name": "x",\n}')
    return tmp_path


def network_of(folder: Path, stated: str) -> str:
    text = f"environments: {{bare: , mine: {{runtime: bare, network: {stated}}}}}{REST}"
    return parse(text, base=folder).environments[1].network


@pytest.mark.parametrize("stated", ["{cni: mine.conf}", "{cni: ./mine.conf}", "cni:mine.conf", "'cni:x/../mine.conf'"])
def test_a_path_begins_at_the_study_and_has_one_form(folder: Path, stated: str) -> None:
    assert network_of(folder, stated) == f"cni:{folder}/mine.conf"


def test_a_shorthand_can_name_it_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"environments: {{bare: , mine: 'docker+cni:mine.conf'}}{REST}"
    mine = parse(text, base=folder).environments[1]
    assert (mine.runtime, mine.network) == ("docker", f"cni:{folder}/mine.conf")
    monkeypatch.chdir(folder)
    assert environment("bare+cni:mine.conf").network == f"cni:{folder}/mine.conf"


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ("{cni: none.conf}", "not found: name a CNI configuration"),
        ("{cni: bad.conf}", "bad.conf:2:1: this is not valid JSON"),
        ("{cni: }", "write a network by its name, or as {cni: PATH}"),
        ("{cni: mine.conf, mtu: 9000}", "write a network by its name, or as {cni: PATH}"),
        ("{cnj: mine.conf}", "write a network by its name, or as {cni: PATH}"),
        ("'cni:'", "unknown network 'cni:'"),
        ("[cni]", "environments.mine.network"),
        ("", "environments.mine.network"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_in_the_study(folder: Path, stated: str, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        network_of(folder, stated)
    assert words in str(caught.value)
    assert str(caught.value).startswith("study:1:46: ")


def test_a_name_that_says_another_network_is_told(folder: Path) -> None:
    with pytest.raises(StudyError, match=r"the name says bridge, but this says cni:mine\.conf"):
        parse(f"environments: {{bare: , docker+bridge: {{network: {{cni: mine.conf}}}}}}{REST}", base=folder)


def test_two_files_are_two_networks(folder: Path) -> None:
    (folder / "other.conf").write_text(GOOD)
    made = [
        parse(f"environments: {{bare: , mine: {{runtime: bare, network: {{cni: {name}}}}}}}{REST}", base=folder)
        for name in ("mine.conf", "other.conf")
    ]
    assert digest(made[0]) != digest(made[1])


def test_launch_takes_a_path_that_begins_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    plan = make_plan(Wanted(command=("true",), environment="bare+cni:mine.conf", nodes=2, ranks=2))
    assert {cell.environment.network for cell in plan.cells} == {f"cni:{folder}/mine.conf"}
