"""The mini-applications (miniapps/) as a study and a plan must know them: nothing is compiled to read a study.

The registry in C says the same (miniapps/apps/registry.c, `tare-miniapps --list` and `--ask`), and a test holds the two
against each other: tests/miniapps/test_declarations.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tare.workloads.declared.declaration import Choice, MiniApp, Parameter, choose, read
from tare.workloads.declared.irregular import GRAPH500, KMI
from tare.workloads.declared.npb import NPB
from tare.workloads.declared.pseudo import BT, LU, SP
from tare.workloads.declared.sockets import SOCKETS
from tare.workloads.declared.solvers import HPCG, MINIFE

__all__ = ["MINIAPPS", "Choice", "MiniApp", "Parameter", "choice_of", "choose", "read"]

MINIAPPS: Final[Mapping[str, MiniApp]] = {
    app.name: app for app in (*NPB, BT, SP, LU, HPCG, MINIFE, GRAPH500, KMI, *SOCKETS)
}


def choice_of(spec: str) -> Choice:
    """Return what a specification as `npb-cg:class=A` chooses, or raise `ValueError` with what is allowed."""
    return read(spec, MINIAPPS)
