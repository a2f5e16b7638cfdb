"""Declare the mini-applications (miniapps/) for studies and plans: nothing is compiled to read a study.

The registry in C has the same facts (miniapps/apps/registry.c, `tare-miniapps --list` and `--ask`);
tests/miniapps/test_declarations.py compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tare.workloads.declared.declaration import Choice, MiniApp, Parameter, choose, read, thinned
from tare.workloads.declared.files import FILES
from tare.workloads.declared.irregular import GRAPH500, KMI
from tare.workloads.declared.npb import NPB
from tare.workloads.declared.pseudo import BT, LU, SP
from tare.workloads.declared.rights import ATTEMPTS
from tare.workloads.declared.sockets import SOCKETS
from tare.workloads.declared.solvers import HPCG, MINIFE

__all__ = ["MINIAPPS", "Choice", "MiniApp", "Parameter", "choice_of", "choose", "read", "thinned"]

MINIAPPS: Final[Mapping[str, MiniApp]] = {
    app.name: app for app in (*NPB, BT, SP, LU, HPCG, MINIFE, GRAPH500, KMI, *SOCKETS, *FILES, ATTEMPTS)
}


def choice_of(spec: str) -> Choice:
    """Return the choice in a specification such as `npb-cg:class=A`, or raise `ValueError` with what is allowed."""
    return read(spec, MINIAPPS)
