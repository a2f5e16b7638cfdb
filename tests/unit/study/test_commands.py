"""A study states commands and the answers that are expected; what is wrong in them is told with its place."""

from __future__ import annotations

import pytest

from tare.errors import StudyError
from tare.model import NodeCommand, Workload
from tare.study import parse
from unit.study_texts import ENVIRONMENTS

WHOLE = """
workloads:
  scaled:
    time_limit: 90s
    commands:
      - [docker, service, scale, "{name}=3"]
      - {run: [docker, service, ls, --format, "{{.Replicas}}"], expect: 3/3, within: 30s}
      - run: [docker, logs, web]
        expect: {line: 2, no_line: not answered, exit: 1}
      - {run: [sleep, 600], expect: {exit: 143}}
    undo:
      - [docker, rm, --force, 7]
"""


def message_of(workload: str) -> str:
    with pytest.raises(StudyError) as caught:
        parse(f"{ENVIRONMENTS}workloads: {{w: {workload}}}", file="s.yaml")
    return str(caught.value)


def test_commands_are_read_with_their_shorthands() -> None:
    assert parse(ENVIRONMENTS + WHOLE).workloads == (
        Workload(
            name="scaled",
            time_limit_s=90.0,
            commands=(
                NodeCommand(run=("docker", "service", "scale", "{name}=3")),
                NodeCommand(run=("docker", "service", "ls", "--format", "{{.Replicas}}"), line="3/3", within_s=30.0),
                NodeCommand(run=("docker", "logs", "web"), line="2", no_line="not answered", exit=1),
                NodeCommand(run=("sleep", "600"), exit=143),
            ),
            undo=(("docker", "rm", "--force", "7"),),
        ),
    )


@pytest.mark.parametrize(
    ("workload", "place", "part"),
    [
        ("{commands: []}", "3:17", "workloads.w.commands: this is empty"),
        ("{commands: docker}", "3:17", "workloads.w.commands: this must be a list"),
        ("{commands: [docker]}", "3:28", "workloads.w.commands[0]: this must be a mapping"),
        ("{commands: [[]]}", "3:28", "workloads.w.commands[0].run: this is empty"),
        ("{commands: [{expect: x}]}", "3:28", "workloads.w.commands[0].run: this key is required"),
        ("{commands: [{run: [a], expected: x}]}", "3:39", "unknown key 'expected'; did you mean expect?"),
        ("{commands: [{run: [a], expect: {status: 1}}]}", "3:48", "unknown key 'status'"),
        ("{commands: [{run: [a], expect: {exit: 256}}]}", "3:48", "this must be at most 255, not 256"),
        ("{commands: [{run: [a], expect: [x]}]}", "3:39", "this must be a mapping"),
        ("{commands: [{run: [a], expect: }]}", "3:39", "this key has no value"),
        ('{commands: [{run: [a], expect: "x\\ny"}]}', "3:39", "write it without a line end"),
        ("{commands: [{run: [a], expect: {line: ''}}]}", "3:48", "this is empty"),
        ("{commands: [{run: [a], within: soon}]}", "3:39", "within"),
        ("{commands: [{run: [a], within: 90s}]}", "3:39", "longer than the workload's time_limit of 60 s"),
        ('{commands: [[a, "{imag}"]]}', "3:28", "{imag} is not replaced by anything; did you mean {image}?"),
        ('{commands: [[a]], undo: [[b, "x-{nme}"]]}', "3:41", "{nme} is not replaced by anything; did you mean {name}"),
        ('{commands: [[a, "b\\0c"]]}', "3:32", "a word of a command cannot have a zero byte"),
        ("{kernels: [barrier], undo: [[a]]}", "3:37", "kernels takes no undo (it belongs to commands)"),
        ("{commands: [[a]], command: [b]}", "3:13", "this has commands and command"),
        ("{commands: [[a]], arguments: [b]}", "3:34", "commands takes no arguments (it belongs to program)"),
    ],
)
def test_what_is_wrong_in_commands_is_told_with_its_place(workload: str, place: str, part: str) -> None:
    message = message_of(workload)
    assert message.startswith(f"s.yaml:{place}: "), message
    assert part in message


def test_too_many_commands_are_refused() -> None:
    message = message_of(f"{{commands: [{', '.join(['[a]'] * 101)}]}}")
    assert "3:17: workloads.w.commands: 101 commands in one launch are too many: use at most 100" in message


@pytest.mark.parametrize("word", ["{{.Names}}", "${image1}", "$imag", "{print}", "{ image }", "{x"])
def test_braces_that_mean_something_else_are_let_through(word: str) -> None:
    text = f"{ENVIRONMENTS}workloads: {{w: {{commands: [[a, '{word}']]}}}}"
    assert parse(text).workloads[0].commands[0].run == ("a", word)
