"""A node of cluster ssh that lies, hangs or floods: the head uses nothing of it, says so and leaves nothing."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from hostile.hostile_node import SSH
from integration.live import Ended, ended, live, outcome, processes, start, tare, trials, write_study

pytestmark = live()
ROOT = Path(__file__).parents[2]
NODE = Path(__file__).with_name("hostile_node.py")
SECRET = "what the head alone may read\n"


class Site:
    """A head whose `ssh` leads to the hostile node."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder, self.state = folder, state
        self.secret, self.loot = folder / "secret", folder / "loot"
        self.secret.write_text(SECRET)
        tools = folder / "tools"
        tools.mkdir()
        (tools / "ssh").write_text(SSH.format(program=NODE))
        (tools / "ssh").chmod(0o755)
        self.study = write_study(
            folder,
            "node",
            ["bare"],
            cluster="{ssh: {hosts: [evil]}}",
            placements="[{nodes: 1, ranks_per_node: 2}]",
            a_a="true",
            workloads="{micro: {time_limit: 300s, kernels: [{barrier: {iterations: 20, warmup: 5}}]}}",
        )
        self.environment = {
            "PATH": f"{tools}:{os.environ['PATH']}", "LOOT": str(self.loot), "WANT": str(self.secret),
            "PYTHON": sys.executable, "PYTHONPATH": f"{ROOT}/src", "SSH_CONNECTION": "127.0.0.1 40000 127.0.0.1 22",
        }  # fmt: skip

    def run(self, evil: str, *arguments: str | Path) -> Ended:
        words = arguments or ("run", self.study)
        return tare(*words, cwd=self.folder, env={**self.environment, "EVIL": evil})

    def check(self, result: Ended) -> None:
        """Check that nothing went wrong beside what was said, and that nothing was sent or is left."""
        assert "Traceback" not in result.stderr
        assert "internal error" not in result.stderr
        assert "\x1b]" not in result.stdout + result.stderr
        assert self.secret.read_text() == SECRET
        assert not self.loot.exists() or SECRET.encode() not in self.loot.read_bytes()
        assert not self.state.exists() or list(self.state.iterdir()) == []
        assert [pid for pid, entry in processes() if of_play(entry, self.folder)] == []


def of_play(entry: Path, folder: Path) -> bool:
    try:
        return f"WANT={folder}/".encode() in (entry / "environ").read_bytes()
    except OSError:
        return False


@pytest.fixture
def site(tmp_path: Path, own_state: Path) -> Site:
    return Site(tmp_path, own_state)


@pytest.mark.parametrize(
    ("evil", "calls"), [("asks for a file", {"missing"}), ("names programs of its own", {"deploy", "join"})]
)
def test_what_the_head_knows_itself_it_does_not_take_from_a_node(evil: str, calls: set[str], site: Site) -> None:
    result = site.run(evil)
    assert set(site.loot.with_name("loot.lies").read_text().split()) == calls
    assert result.status in (0, 3), result.stderr
    assert [outcome(trial) for trial in trials(site.folder / "results/node")] == ["Completed"] * 2
    site.check(result)


@pytest.mark.parametrize(("evil", "call"), [("counts what is no number", "counters"), ("steers the terminal", "facts")])
def test_an_answer_that_cannot_be_is_not_stored(evil: str, call: str, site: Site) -> None:
    result = site.run(evil)
    assert result.status == 5, result.stderr
    assert f"node evil gave an impossible answer to '{call}'" in result.stderr
    assert trials(site.folder / "results/node") == []
    site.check(result)


@pytest.mark.parametrize(
    ("evil", "said"),
    [
        ("sends an object of the head", "node evil gave an impossible answer to 'greet'"),
        ("floods", "node evil sent more than 64 MiB in one answer"),
    ],
)
def test_a_node_that_sends_something_else_is_refused(evil: str, said: str, site: Site) -> None:
    result = site.run(evil, "plan", site.study)
    assert result.status == 5, result.stderr
    assert said in result.stderr
    site.check(result)


def test_a_node_that_hangs_is_named_and_one_interrupt_ends_the_wait(site: Site) -> None:
    begun = start("plan", site.study, cwd=site.folder, env={**site.environment, "EVIL": "says nothing more"})
    line = begun.stderr.readline()
    assert line == "tare: waiting for evil to answer; Ctrl-C ends it\n"
    os.kill(begun.pid, signal.SIGINT)
    result = ended(begun)
    assert result.status == 130, result.stderr
    site.check(result)
