"""Run `tare doctor`: choose among its three questions, and refuse options that do not go together."""

from __future__ import annotations

from collections.abc import Sequence

from tare.errors import UsageError


def run_doctor(command: Sequence[str], *, locality: bool, noise: bool, as_json: bool) -> int:
    """Answer what can run here, whether two ranks share memory, or what disturbs; return the exit code."""
    if noise and not (locality or command):
        from tare.doctor.noise import show_noise

        return show_noise(as_json=as_json)
    if noise or as_json:
        raise UsageError(
            "--noise stands alone, and --json belongs to it", remedy="run `tare doctor --noise`, or with --json"
        )
    if locality:
        from tare.doctor.locality import checked, show_locality

        return show_locality(checked(command))
    if command:
        raise UsageError(
            "tare doctor takes a command only with --locality",
            remedy="leave the command out, or write `tare doctor --locality -- mpirun -n 2`",
        )
    from tare.doctor.machine import show_doctor

    return show_doctor()
