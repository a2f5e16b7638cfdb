"""Say what an environment gave its ranks and what it kept from them, as they saw it from inside. Pure.

Speed is shown next to what was given up for it: a container that is as fast as bare because it may do all that bare may
is another thing than one that is as fast and may not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from tare.analysis.summary import surroundings
from tare.analysis.summary.surroundings import NOT_KNOWN
from tare.model import Isolation, RankPlace, Trial
from tare.runtimes import RUNTIMES

CAPABILITIES: Final = (
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
    "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
    "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
    "sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
    "mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
    "checkpoint_restore",
)  # fmt: skip
"""Names by bit, without CAP_ (capability.h of Linux 5.9)."""
MANY: Final = 30
FEW_LIMITS: Final = 4
SECCOMP: Final = {"0": "off", "1": "strict", "2": "filter"}
"""The modes of seccomp in /proc/PID/status (proc(5))."""
NAMESPACES: Final = ("net", "ipc", "uts", "pid", "mnt", "user", "cgroup")
WHOLE_MAP: Final = "0 0 4294967295"


def isolation_of(
    environment: str, runtime: str, trials: Iterable[Trial], baseline: Iterable[Trial] = ()
) -> Isolation | None:
    """Return the facts of an environment, from the first rank of the first launch that told them; None if none did.

    A container's limits are those of all launches. Limits of processes are held against those of `baseline`.
    """
    telling = _telling(trials)
    if not telling:
        return None
    of_baseline = next((rank.rights for rank in _telling(baseline)), {})
    return replace(
        _isolation(environment, runtime, telling[0]),
        limits=limits(telling),
        of_processes=surroundings.process_limits(telling[0].rights, of_baseline),
    )


def _telling(trials: Iterable[Trial]) -> list[RankPlace]:
    return [rank for trial in trials for rank in trial.ranks if rank.rights]


def limits(ranks: Iterable[RankPlace]) -> str:
    """Return what containers were held to, each once: it differs from placement to placement."""
    stated = list(dict.fromkeys(rank.rights.get("limits", NOT_KNOWN) for rank in ranks))
    more = f"; and {len(stated) - FEW_LIMITS} more" if len(stated) > FEW_LIMITS else ""
    return "; ".join(map(surroundings.limits, stated[:FEW_LIMITS])) + more


def _isolation(environment: str, runtime: str, rank: RankPlace) -> Isolation:
    rights = rank.rights
    return Isolation(
        environment=environment,
        daemon=RUNTIMES[runtime].daemon if runtime in RUNTIMES else "none",
        capabilities=capabilities(rights.get("capabilities", "")),
        seccomp=seccomp(rights),
        no_new_privileges=no_new_privileges(rights),
        users=users(rights),
        speculation=rights.get("speculation_store_bypass", NOT_KNOWN),
        shared=tuple(name for name in NAMESPACES if name in rank.node_namespaces),
        devices=surroundings.devices(rights),
        mounts=surroundings.mounts(rights),
        setuid=rights.get("setuid", NOT_KNOWN),
        by=rights.get("by", NOT_KNOWN),
    )


def capabilities(mask: str) -> str:
    """Return a mask of effective capabilities in words: none, their names, or how many where they are many."""
    if not mask:
        return NOT_KNOWN
    bits = int(mask, 16)
    held = [CAPABILITIES[bit] if bit < len(CAPABILITIES) else str(bit) for bit in range(64) if bits >> bit & 1]
    if not held:
        return "none"
    if len(held) < MANY:
        return f"{len(held)}: {', '.join(held)}"
    missing = [name for bit, name in enumerate(CAPABILITIES) if not bits >> bit & 1]
    return f"{len(held)}, all but {', '.join(missing)}" if missing else "all"


def seccomp(rights: Mapping[str, str]) -> str:
    """Return the mode of the filter of system calls."""
    return SECCOMP.get(rights.get("seccomp", ""), NOT_KNOWN)


def no_new_privileges(rights: Mapping[str, str]) -> str:
    """Return whether ranks can gain no privileges by starting a program."""
    return {"0": "no", "1": "yes"}.get(rights.get("no_new_privs", ""), NOT_KNOWN)


def users(rights: Mapping[str, str]) -> str:
    """Return whom the ranks' root is outside of their user namespace."""
    mapping = rights.get("uid_map", "")
    if not mapping:
        return NOT_KNOWN
    if mapping == WHOLE_MAP:
        return "the machine's"
    inside, outside, count = mapping.split()
    return f"own: {inside} inside is {outside} outside ({count} of them)"
