"""`tools/without-services` lets packages come without their services, and puts back what it found."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from waiting import wait_until

TOOL = Path(__file__).parents[3] / "tools" / "without-services"
OWN = "#!/bin/sh\nexit 104\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Return where policy-rc.d is, with a systemctl on PATH that keeps its units in a file."""
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "systemctl"
    fake.write_text(
        "#!/bin/sh\n"
        f'scope=$1; shift; file={tmp_path}/units$scope; touch "$file"\n'
        'case $1 in list-unit-files) sed "s/$/ enabled enabled/" "$file" ;;\n'
        'disable) shift; for unit; do [ "$unit" = --quiet ] || sed -i "/^$unit\\$/d" "$file"; done ;; esac\n'
    )
    fake.chmod(0o755)
    (tmp_path / "units--system").write_text("cron.service\n")
    return tmp_path / "policy-rc.d"


def argv_and_environment(policy: Path, script: str) -> tuple[tuple[str, ...], dict[str, str]]:
    path = f"{policy.parent}/bin:{os.environ['PATH']}"
    return (str(TOOL), "/bin/sh", "-c", script), {**os.environ, "PATH": path, "TARE_POLICY_RC_D": str(policy)}


def ran(policy: Path, script: str) -> subprocess.CompletedProcess[str]:
    argv, environment = argv_and_environment(policy, script)
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def test_starts_are_denied_while_the_command_runs_and_never_after(policy: Path) -> None:
    result = ran(policy, f"{policy}; echo $?")
    assert (result.returncode, result.stdout) == (0, "101\n")
    assert not policy.exists()


@pytest.mark.parametrize("status", [0, 7])
def test_a_policy_of_the_machine_is_put_back_whatever_the_command_says(policy: Path, status: int) -> None:
    policy.write_text(OWN)
    policy.chmod(0o755)
    result = ran(policy, f"{policy} || echo $?; exit {status}")
    assert (result.returncode, result.stdout) == (status, "101\n")
    assert (policy.read_text(), os.access(policy, os.X_OK)) == (OWN, True)
    assert sorted(path.name for path in policy.parent.glob("policy*")) == ["policy-rc.d"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_policy_of_the_machine_is_put_back_after_a_signal(policy: Path, number: signal.Signals) -> None:
    policy.write_text(OWN)
    began = policy.parent / "began"
    argv, environment = argv_and_environment(policy, f"touch {began}; read line")
    with subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE) as running:
        wait_until(began.exists, "the command runs")
        running.send_signal(number)  # the tool hears it when its command has ended, which does so with its input
    assert running.returncode != 0
    assert policy.read_text() == OWN


def test_what_a_killed_run_left_is_not_taken_for_the_machine_s_own(policy: Path) -> None:
    policy.write_text(OWN)
    assert ran(policy, f"cp {policy} {policy}.copy").returncode == 0
    left = policy.with_name("policy-rc.d.copy").read_text()
    policy.rename(policy.with_name("policy-rc.d.before-tare"))
    policy.write_text(left)
    ran(policy, "true")
    assert policy.read_text() == OWN


def test_units_that_come_enabled_are_disabled_and_the_others_stay(policy: Path) -> None:
    units = policy.parent / "units--system"
    result = ran(policy, f"echo docker.service >>{units}; echo podman.socket >>{policy.parent}/units--global")
    assert units.read_text() == "cron.service\n"
    assert (policy.parent / "units--global").read_text() == ""
    assert "neither started nor enabled: docker.service" in result.stdout


def test_without_a_command_it_says_so_and_touches_nothing(policy: Path) -> None:
    _, environment = argv_and_environment(policy, "")
    result = subprocess.run((TOOL,), env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, policy.exists()) == (2, False)
    assert "name the command" in result.stderr
