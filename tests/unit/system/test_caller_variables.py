"""What tare starts gets none of the caller's variables that mean something else, or nothing, where it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tare.system import caller_variables, process

SOURCES = Path(caller_variables.__file__).parents[1]
WHOLE = {
    "system/process.py": "replaces this process by another of tare's, or of the user's",
    "system/user_namespace.py": "the same command of tare, as root of a user namespace",
    "cli/lab_commands.py": "the user's shell on a node",
    "cli/check/command.py": "the user's own launch line, as the user would start it",
    "mpi/launch/agent.py": "runs on the node, in the environment that its caller made",
}
"""Modules that pass the whole environment on, with the reason."""


@pytest.mark.parametrize(
    ("name", "of_commands", "of_labs", "of_daemons"),
    [
        ("TMPDIR", False, False, False),
        ("LD_PRELOAD", False, False, False),
        ("BASH_FUNC_module%%", False, False, False),
        ("CONTAINERS_CONF", True, False, False),
        ("DOCKER_HOST", True, False, False),
        ("https_proxy", True, False, False),
        ("STORAGE_DRIVER", True, False, False),
        ("SLURM_JOB_ID", True, True, True),
        ("ENVIRONMENT", True, True, True),
        ("TMPDIRS", True, True, True),
        ("XDG_CACHE_HOME", True, True, True),
        ("LD_LIBRARY_PATH", True, True, True),
    ],
)
def test_a_variable_of_the_caller_reaches_what_needs_it(
    name: str, of_commands: bool, of_labs: bool, of_daemons: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "theirs")

    def has(text: str) -> bool:
        return f"{name}=theirs" in text.splitlines()

    assert has(process.run(("env",)).stdout) is of_commands
    with caller_variables.in_lab():
        assert has(process.run(("env",)).stdout) is of_labs
    assert has(process.run(("env",)).stdout) is of_commands
    process.start(("env",), log=tmp_path / "log").wait()
    assert has((tmp_path / "log").read_text()) is of_daemons
    assert not has(process.run(("env",), env={"PATH": "/bin"}).stdout)


def test_only_some_modules_pass_the_whole_environment_on() -> None:
    passes = re.compile(r"\*\*os\.environ|env=os\.environ|dict\(os\.environ")
    found = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if passes.search(path.read_text())}
    assert found == set(WHOLE)
