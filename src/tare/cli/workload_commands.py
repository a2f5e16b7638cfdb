"""Run `tare workloads`: list every workload, what it measures and how, and whether it is available here."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import groupby
from typing import Final

from tare.mpi import MPIS
from tare.workloads.catalogue import CatalogueEntry, entries
from tare.workloads.programs import PROGRAMS
from tare.workloads.programs.locate import missing

TITLES: Final = {
    "kernel": "kernels: tare's own micro-benchmarks, any of them in one launch",
    "mini-application": "mini-applications: tare's own, each verifies its result",
    "program": "third-party programs",
    "yours": "your own program",
    "start-up": "start-up",
    "product": "commands of a product, on the first node",
}


def show_workloads(*, as_json: bool) -> None:
    """Print all workloads, as text or as JSON."""
    listed = [(entry, missing_of(entry)) for entry in entries()]
    print(as_data(listed) if as_json else as_text(listed))


def missing_of(entry: CatalogueEntry) -> str:
    """Return what is missing on this machine for a workload to run, or "".

    Tare's own workloads are compiled when they are first needed, with any of the MPIs.
    """
    if entry.family == "program":
        return missing(PROGRAMS[entry.name]) or ""
    reasons = [member.probe() for member in MPIS.values() if not member.is_fake]
    return "" if None in reasons else next(filter(None, reasons), "")


def as_data(listed: list[tuple[CatalogueEntry, str]]) -> str:
    """Return the workloads as JSON: a list of objects, with `missing` null for those that can run."""
    objects = [{**asdict(entry), "available": not reason, "missing": reason or None} for entry, reason in listed]
    return json.dumps(objects, indent=2, ensure_ascii=False)


def as_text(listed: list[tuple[CatalogueEntry, str]]) -> str:
    """Return the workloads as text, by family."""
    lines: list[str] = []
    for family, members in groupby(listed, key=lambda item: item[0].family):
        lines += ["", TITLES[family]] if lines else [TITLES[family]]
        for entry, reason in members:
            lines += _lines(entry, reason)
    return "\n".join(lines)


def _lines(entry: CatalogueEntry, reason: str) -> list[str]:
    mark = "missing" if reason else "ok     "
    facts = {
        "measures": entry.measures,
        "ranks": entry.ranks,
        "choices": entry.choices,
        "taken": f"{entry.timer}; synchronisation: {entry.synchronisation}; {entry.reduction}",
        "missing": reason,
    }
    head = f"  {mark} {entry.name}  `{entry.stated}`  {entry.describes}"
    return [head, *(f"            {name}: {text}" for name, text in facts.items() if text)]
