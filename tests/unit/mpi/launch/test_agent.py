"""`tare-agent` starts in every launch, so it imports little and reads its map by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.mpi.launch import BY_NAME, agent, write_agent
from tare.system.namespaces import plain_python

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES)
def test_a_map_is_read_as_the_package_json_reads_it(value: object) -> None:
    assert agent.parse_json(json.dumps(value)) == value
    assert agent.parse_json(json.dumps(value, indent=1, ensure_ascii=False) + "\n") == value


@pytest.mark.parametrize("text", ["", "{", '{"a": }', "[1,", "nul", '"a'])
def test_what_is_no_json_is_an_error_that_the_agent_tells(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        agent.parse_json(text)


def test_a_start_imports_nothing_that_takes_longer_than_the_interpreter(tmp_path: Path) -> None:
    program = write_agent(tmp_path, plain_python())
    entry = json.dumps({"argv": ["env"], "cgroups": [], "cpus": []})
    argv = (plain_python(), "-X", "importtime", "-IS", str(program), "--entry", entry, "--", "true")
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    imported = set(re.findall(r"\|\s+(\S+)$", done.stderr, re.MULTILINE))
    assert "os" in imported
    assert not imported & {"json", "re", "socket", "typing", "subprocess", "collections"}


@pytest.mark.parametrize("value", ["$LD_LIBRARY_PATH", "${LD_LIBRARY_PATH}", "${LD_LIBRARY_PATH:-}"])
@pytest.mark.parametrize("before", [None, "/site/lib"])
def test_no_daemon_looks_for_libraries_in_the_current_folder(tmp_path: Path, value: str, before: str | None) -> None:
    program = write_agent(tmp_path, plain_python())
    launch_map = tmp_path / "map.json"
    launch_map.write_text(json.dumps({"hosts": {"n0": {"agent": {"keeps": ["LD_LIBRARY_PATH"]}}}}))
    environment = {"TARE_LAUNCH_MAP": str(launch_map), **({} if before is None else {"LD_LIBRARY_PATH": before})}
    daemon = f"LD_LIBRARY_PATH=/usr/lib:{value} ; export LD_LIBRARY_PATH ; printenv LD_LIBRARY_PATH"
    argv = (plain_python(), "-IS", str(program), "n0", daemon)
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == ("/usr/lib\n" if before is None else "/usr/lib:/site/lib\n")


def test_a_preloaded_library_is_passed_into_a_container_and_not_loaded_outside_of_it() -> None:
    enters = ("sh", "-c", 'echo "outside: ${LD_PRELOAD-none}"; exec "$@"', "sh", "env", "-i")
    entry = json.dumps({"argv": enters, "carry": True})
    command = (sys.executable, agent.__file__, "--entry", entry, "--", "sh", "-c", 'echo "inside: $LD_PRELOAD"')
    told = {**os.environ, "LD_PRELOAD": "/nowhere/libx.so"}  # the linker says on stderr that it is not there
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
    assert done.stdout == "outside: none\ninside: /nowhere/libx.so\n"


def test_a_variable_that_a_client_takes_by_its_name_is_in_its_environment_and_not_in_its_arguments() -> None:
    entry = json.dumps({"argv": ["sh", "-c", 'echo "$TARE_PADDING $*"', "sh", *BY_NAME], "carry": True})
    command = (sys.executable, agent.__file__, "--entry", entry, "--", "app")
    told = {"PATH": os.environ["PATH"], "TARE_PADDING": "00ff:xx", "TARE_RUN": "r"}
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
    assert done.stdout == "00ff:xx --env TARE_PADDING env TARE_RUN=r app\n"
