"""Run `tare doctor`: choose among its three questions, and refuse options that do not go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.errors import EXIT_DONE, EXIT_INFRASTRUCTURE, UsageError
from tare.model.text import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The cluster that is asked about ("": the one that this user has), its hosts, and whether everything is shown."""

    cluster: str = ""
    hosts: tuple[str, ...] = ()
    ssh_config: str = ""
    every: bool = False


def run_doctor(command: Sequence[str], about: About, *, locality: bool, noise: bool, as_json: bool) -> int:
    """Answer what can run here, whether two ranks share memory, or what disturbs; return the exit code."""
    if (noise or locality) and about != About():
        raise UsageError(
            "--cluster, --hosts, --ssh-config and --all are for what can run, not for --noise and --locality",
            remedy="leave them out",
        )
    if noise and not (locality or command):
        from tare.cli.doctor.noise import show_noise

        return show_noise(as_json=as_json)
    if noise or as_json:
        raise UsageError(
            "--noise stands alone, and --json belongs to it", remedy="run `tare doctor --noise`, or with --json"
        )
    if locality:
        from tare.cli.doctor.locality import checked, show_locality

        return show_locality(checked(command))
    if command:
        raise UsageError(
            "tare doctor takes a command only with --locality",
            remedy="leave the command out, or write `tare doctor --locality -- mpirun -n 2`",
        )
    return show_doctor(about)


def show_doctor(about: About) -> int:
    """Print the diagnosis; return 0 when at least one environment can run, else 5."""
    from tare.cli.doctor.quiet import watching

    noise = watching()  # meanwhile, a second's worth of modules is imported
    from tare.cli.doctor.machine import diagnose
    from tare.cli.doctor.text import brief, whole

    found = diagnose(about.cluster, about.hosts, about.ssh_config, noise=noise(), pairs=about.every)
    print(printable("\n".join(whole(found) if about.every else brief(found)), lines=True))
    return EXIT_DONE if found.able else EXIT_INFRASTRUCTURE
