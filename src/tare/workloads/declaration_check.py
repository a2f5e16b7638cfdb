"""Check that a workload declares how its figures are made: timer, synchronisation, reduction over ranks."""

from __future__ import annotations

from typing import Final

DECLARED: Final = ("timer", "synchronisation", "reduction")


def check_declared(member: type, *names: str) -> None:
    """Raise `TypeError` that names what a class does not declare; a declaration is a text or a property."""
    lacking = [name for name in names if getattr(member, name, "") == "" or _is_abstract(getattr(member, name))]
    if lacking:
        raise TypeError(f"the workload {member.__name__} does not declare {', '.join(lacking)}")


def _is_abstract(value: object) -> bool:
    return bool(getattr(value, "__isabstractmethod__", False))
