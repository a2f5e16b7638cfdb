"""Its processes have other limits than the baseline's: open files, stack, locked memory, processes, /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tare.analysis.explain.cause import Change, Clue, baseline_variables
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import ALWAYS
from tare.analysis.summary.surroundings import PROCESS_LIMITS, process_limit

FILES: Final = "open_files"
OPTIONS: Final = {
    FILES: "nofile",
    "stack_bytes": "stack",
    "locked_bytes": "memlock",
    "processes": "nproc",
}
"""The names of `docker run --ulimit`, and of /etc/security/limits.conf."""
TIMES: Final = 4.0
"""So many times as many open files take time: a program that closes all before it starts another one."""


class LimitsCause:
    """Limits differ."""

    name = "limits"
    words = "other limits (ulimit, /dev/shm)"
    takes = ALWAYS

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        for name, here, base in _differing(evidence):
            here_text, base_text = (process_limit(name, each.right(name)) for each in (evidence.here, evidence.base))
            more_files = name == FILES and here > TIMES * base
            text = f"its processes have a limit of {here_text}, the baseline's of {base_text}"
            yield Clue(text=text, weight=2.5 if more_files else 0.5 if here < base else 0.2)

    def change(self, evidence: Evidence) -> Change | None:
        return baseline_variables(evidence)  # no key of a study sets a limit

    def remedy(self, evidence: Evidence) -> str:
        wanted = {name: evidence.base.right(name) for name, _, _ in _differing(evidence)}
        asked = [
            f"--ulimit {option}={wanted[name].replace('unlimited', '-1')}"
            for name, option in OPTIONS.items()
            if name in wanted
        ]
        asked += [f"--shm-size={wanted['shm_bytes']}"] if "shm_bytes" in wanted else []
        return f"the baseline's limits (docker run {' '.join(asked)}; default-ulimits in daemon.json)"


def _differing(evidence: Evidence) -> Iterator[tuple[str, float, float]]:
    """Yield the limits that differ, with their values here and in the baseline; unlimited is infinite."""
    for name in PROCESS_LIMITS:
        texts = evidence.here.right(name), evidence.base.right(name)
        if all(texts) and texts[0] != texts[1]:
            here, base = (float(text.replace("unlimited", "inf")) for text in texts)
            yield name, here, base
