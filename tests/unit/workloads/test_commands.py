"""Commands on a node: which answers are as expected, and how the others are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tare.model import Environment, NodeCommand, Placement, Sides, Workload
from tare.workloads import WORKLOADS, answers
from tare.workloads.output import OutputError, Parsed

RUN = ("docker", "port", "it")
PORT = NodeCommand(run=RUN, line="9100/tcp -> *")
WORKLOAD = Workload(name="port", commands=(NodeCommand(run=("docker", "run", "{image}")), PORT))


def complaint(command: NodeCommand, status: int = 0, stdout: str = "", stderr: str = "") -> str:
    return answers.complaint(command, command.run, status, stdout, stderr)


# --- one answer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "status", "stdout", "stderr"),
    [
        (NodeCommand(run=RUN), 0, "", ""),
        (NodeCommand(run=RUN, exit=1), 1, "", "no such container"),
        (PORT, 0, "8080/tcp -> 0.0.0.0:80\n  9100/tcp -> 0.0.0.0:9100 \n", ""),
        (PORT, 0, "", "9100/tcp -> 0.0.0.0:9100\n"),
        (PORT, 0, "\x1b[1;91m9100/tcp -> y\x1b[0m\n", ""),
        (NodeCommand(run=RUN, line="answered", no_line="not answered"), 0, "answered\n", ""),
        (NodeCommand(run=RUN, no_line="*lost*"), 0, "", ""),
    ],
)
def test_an_answer_that_is_as_expected_draws_no_complaint(
    command: NodeCommand, status: int, stdout: str, stderr: str
) -> None:
    assert complaint(command, status, stdout, stderr) == ""


@pytest.mark.parametrize(
    ("command", "status", "stdout", "stderr", "said"),
    [
        (PORT, 0, "", "", "`docker port it` was expected to print a line like '9100/tcp -> *', but printed: nothing"),
        (PORT, 0, "x 9100/tcp -> y\n", "", "but printed: x 9100/tcp -> y"),
        (PORT, 1, "", "Error: gone\nsecond", "ended with status 1, not 0, and printed: Error: gone / second"),
        (NodeCommand(run=RUN, exit=1), 0, "", "", "ended with status 0, not 1, and printed: nothing"),
        (NodeCommand(run=RUN, no_line="not*"), 0, "yes\nnot yet\n", "", "no line like 'not*', but printed: not yet"),
    ],
)
def test_another_answer_is_told_with_the_command_and_what_came(
    command: NodeCommand, status: int, stdout: str, stderr: str, said: str
) -> None:
    assert said in complaint(command, status, stdout, stderr)


def test_a_hostile_output_is_bounded_and_printable() -> None:
    said = complaint(PORT, 0, "\x1b[2Jowned\x07\n" * 50_000, "\u202e" * 100_000)
    assert len(said) < 3 * answers.SHOWN
    assert said.isprintable()
    assert "\\x1b[2Jowned" in said


def test_what_is_beyond_the_part_that_is_compared_is_not_found() -> None:
    late = "x\n" * answers.COMPARED + "9100/tcp -> y\n"
    assert complaint(PORT, 0, late)
    assert not complaint(PORT, 0, "9100/tcp -> y\n" + late)


# --- words that are replaced --------------------------------------------------------------------------------------


def test_words_in_braces_are_replaced_once_and_templates_and_variables_stay() -> None:
    values = {"image": "tare/debian:1", "name": "{image}"}
    words = ("run", "--name={name}-web", "{image}", "{{.Replicas}}", "{{name}}", "${name}", "{network}", "{other}")
    assert answers.replaced(words, values) == (
        "run", "--name={image}-web", "tare/debian:1", "{{.Replicas}}", "{{name}}", "${name}", "{network}", "{other}",
    )  # fmt: skip
    assert answers.words_in(words) == {"name", "image", "network"}


# --- where they can run -------------------------------------------------------------------------------------------


def refused(commands: tuple[tuple[str, ...], ...], **environment: Any) -> str | None:
    usual: dict[str, Any] = {"name": "e", "runtime": "docker", "network": "overlay", "image": "debian-openmpi"}
    workload = Workload(name="w", commands=tuple(NodeCommand(run=words) for words in commands[:1]), undo=commands[1:])
    return WORKLOADS["commands"].refuse_environment(workload, Environment(**(usual | environment)))


@pytest.mark.parametrize(
    ("commands", "environment", "reason"),
    [
        ((("docker", "info"),), {"runtime": "apptainer"}, "call docker, which apptainer does not set up: use docker"),
        ((("true",), ("apptainer", "cache", "clean")), {}, "call apptainer, which docker does not set up: use appt"),
        ((("ls", "{image}"),), {"runtime": "bare", "network": "host", "image": ""}, "uses the host's files"),
        ((("docker", "run", "--network={network}"),), {"network": "host"}, "host is none: leave {network} out"),
        ((("true",),), {"sides": Sides.SENDER}, "use sides: both"),
    ],
)
def test_commands_are_refused_where_their_product_is_not_set_up(
    commands: tuple[tuple[str, ...], ...], environment: dict[str, Any], reason: str
) -> None:
    said = refused(commands, **environment)
    assert said is not None
    assert reason in said


@pytest.mark.parametrize(
    ("commands", "environment"),
    [
        ((("docker", "run", "--network={network}", "{image}"),), {}),
        ((("docker", "run", "--network={network}", "{image}"),), {"network": "docker-default"}),
        ((("apptainer", "exec", "{image}", "true"),), {"runtime": "apptainer-sif", "network": "host"}),
        ((("/usr/bin/true",),), {"runtime": "bare", "network": "host", "image": ""}),
    ],
)
def test_commands_run_where_it_is(commands: tuple[tuple[str, ...], ...], environment: dict[str, Any]) -> None:
    assert refused(commands, **environment) is None


# --- a launch -----------------------------------------------------------------------------------------------------


def said(*answered: dict[str, Any], refuted: str = "") -> str:
    records = [
        {"type": "start", "protocol": 1, "ranks": 0},
        {"type": "treatment", "refuted": refuted},
        *({"type": "answer", "took_s": 0.5, "tries": 1, "complaint": "", **each} for each in answered),
        {"type": "end"},
    ]
    return "".join(f"@tare {json.dumps(record)}\n" for record in records)


def parse(text: str) -> Parsed:
    return WORKLOADS["commands"].parse(WORKLOAD, text)


def test_the_metric_is_the_time_of_all_commands_and_has_no_verdict() -> None:
    parsed = parse(said({}, {"took_s": 2.0}))
    (metric,) = parsed.metrics
    (info,) = WORKLOADS["commands"].metrics(WORKLOAD, Placement())
    assert (metric.key, metric.value, metric.judged) == (info.key, 2.5, info.judged) == ("all", 2.5, False)
    assert parsed.ranks == ()
    assert parsed.refuted == "", "the launch proves its treatment itself"


def test_a_complaint_is_the_reason_that_the_launch_failed() -> None:
    with pytest.raises(OutputError, match=r"^it printed \\x07nothing$"):
        parse(said({}, {"complaint": "it printed \x07nothing"}))


def test_a_launch_that_was_not_in_its_environment_says_so_and_ran_no_command() -> None:
    assert parse(said(refuted="another \x1bnode")).refuted == "another \\x1bnode"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (said({}), "only 1 of 2 commands were run"),
        (said({}, {"took_s": "1"}), "does not follow the protocol"),
        (said({}, {"took_s": float("inf")}), "impossible"),
        (said({}, {}).replace('"treatment"', '"other"'), "nothing says where the commands ran"),
    ],
)
def test_output_that_is_not_whole_is_no_result(text: str, reason: str) -> None:
    with pytest.raises(OutputError, match=reason):
        parse(text)
