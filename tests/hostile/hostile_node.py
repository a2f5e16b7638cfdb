"""A hostile node, as `ssh HOST` would start it: the real service, but for what `EVIL` says. Run by `ssh`, below.

    python3 hostile_node.py

`WANT` is a path that it asks for, or names; what the head sends it goes to `LOOT`.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

SSH = """#!/bin/sh
for last; do :; done
case "$last" in
*"import os;exec(eval("*) exec "$PYTHON" {program} ;;
*unfinished*) exec cat >> "$LOOT" ;;
*) exec /bin/sh -c "$last" ;;
esac
"""
"""What stands for `ssh`: the connection is to this program, files that are sent are looted, ranks run here."""


def lies(evil: str, name: str, told: Any) -> Any:
    """Return what is answered to a call instead of the truth; the file `LOOT.lies` gets the names of such calls."""
    lie = _lie(evil, name, told)
    if lie is not told:
        with open(f"{os.environ['LOOT']}.lies", "a") as file:
            file.write(f"{name}\n")
    return lie


def _lie(evil: str, name: str, told: Any) -> Any:
    want = os.environ["WANT"]
    if evil == "asks for a file" and name == "missing":
        return (want, f"--files-from={want}", *told)
    if evil == "counts what is no number" and name == "counters":
        return replace(told, busy_s=float("nan"))
    if evil == "names programs of its own" and name in ("deploy", "join"):
        return tuple(replace(pod, prefix=Path(want), variables=(f"LD_PRELOAD={want}",)) for pod in told)
    if evil == "steers the terminal" and name == "facts":
        return {**told, "kernel": "\x1b]0;owned\x07"}
    return told


def main() -> int:
    """Greet the head and serve, or do not."""
    source = os.fdopen(os.dup(0), "rb", 0)
    source.readline()
    source.readline()
    os.write(1, b'tare-node {"has": true}\n')
    evil = os.environ["EVIL"]
    if evil == "says nothing more":
        source.read()
        return 0
    if evil == "floods":
        while True:
            os.write(1, b"x" * (1 << 16))
    if evil == "sends an object of the head":
        source.readline()
        door = {"=": "tare.cli.started_from:StartedIn", "of": {"folder": "/"}}
        os.write(1, json.dumps([1, "done", door]).encode() + b"\n")
        source.read()
        return 0
    from tare.agent.remote import machine_answers, serve

    service = machine_answers.Service
    call, missing = service.call, service.missing
    service.call = lambda self, name, words: lies(evil, name, call(self, name, words))  # type: ignore[method-assign]
    service.missing = lambda self, paths: lies(evil, "missing", missing(self, paths))  # type: ignore[method-assign]
    return serve.main()


if __name__ == "__main__":
    sys.exit(main())
