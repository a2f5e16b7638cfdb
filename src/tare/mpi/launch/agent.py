"""Start a process in the place that a launch map gives: the helper program `tare-agent`.

The MPI's launcher runs it to start daemons (as `plm_rsh_agent`, or as Hydra's launcher program), and ranks are started
through it (as a wrapper). It imports no other tare module and nothing slow, because it is part of every job's start-up
time.

    tare-agent HOST COMMAND...     start COMMAND on a host of the map, as rsh does (one string for the host's shell)
    tare-agent --rank COMMAND...   start COMMAND as this process's rank on this host, as the MPI reports it
    tare-agent --entry JSON -- COMMAND...   start COMMAND through one entry given here

$TARE_LAUNCH_MAP names the map file: {"hosts": {NAME: {"agent": ENTRY, "ranks": [ENTRY, ...]}}};
an ENTRY is {"cgroups": [folder, ...], "cpus": [core, ...], "argv": [token, ...], "shell": true or false,
"carry": true or false, "attached": true or false, "variables": {NAME: VALUE}, "keeps": [NAME, ...],
"drops": [NAME, ...]}. With "carry" the place drops the caller's environment (docker exec, kubectl exec, ssh), so the
variables of the launch and the MPI are put before the command, through env(1). "keeps" are further variables that a
daemon gets, "drops" those that a rank leaves outside. A host on which a scheduler starts ranks has "alias", its name
there.
"""

import os
import sys

MYPY = False
if MYPY:  # importing typing, json and socket takes longer than the rest of the start-up
    from typing import Any

LOCAL_RANK = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID")
RSH_OPTIONS_WITH_VALUE = ("-l", "-p", "-o", "-i")
INTO_RANKS = (
    "FI_", "HYDI_", "HYDRA_", "I_MPI_", "LD_PRELOAD", "MPI_", "MPICH_", "MPIR_", "MV2_", "MVP_", "OMPI_", "PALS_",
    "PMIX_", "PMI_", "PRTE_", "SLURM_", "TARE_", "UCX_",
)  # fmt: skip
CARRIED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TARE_LAUNCH_MAP", "TERM", "USER")
ELSEWHERE = ("LD_LIBRARY_PATH", "TARE_RUN", "TMPDIR")
"""What a daemon on another machine needs on top of that: here it inherits the first, there nothing. The last is the
run's folder, in which the files of a killed daemon do not outlive the run."""
LEAVES = " --daemonize "
"""The option by which Open MPI's daemons leave the process that started them."""
SEARCHED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Open MPI puts a folder and a colon before these, also if they are unset: an empty part is the current folder."""
STAYS = 'cd "$0" 2>/dev/null; exec "$@"'
KNOWN_THERE = ("HOME", "LOGNAME", "SHELL", "TERM", "USER")


def fail(message: str) -> int:
    """Print an error as one sentence on stderr and return the exit status of a bad launch."""
    print(f"tare-agent: {message}", file=sys.stderr)
    return 125


def start(entry: "dict[str, Any]", command: list[str], environment: "dict[str, str] | None" = None) -> int:
    """Replace this process by the command: join cgroups, bind cores, prepend argv. Returns only on failure."""
    if not command:
        return fail("no command given")
    if entry.get("via"):
        return start_elsewhere(entry, command, dict(os.environ if environment is None else environment))
    place = ""
    try:
        for folder in entry.get("cgroups", ()):
            place = folder
            with open(os.path.join(folder, "cgroup.procs"), "w") as file:
                file.write(str(os.getpid()))
        if entry.get("cpus"):
            place = f"the cores {entry['cpus']}"
            os.sched_setaffinity(0, entry["cpus"])
    except OSError as error:
        return fail(f"cannot join {place}: {error.strerror}")
    given = dict(os.environ if environment is None else environment)
    for name in entry.get("drops", ()):
        given.pop(name, None)
    given.update(entry.get("variables", {}))
    argv = [*entry.get("argv", ()), *(environment_prefix(entry, given) if entry.get("carry") else ()), *command]
    if entry.get("carry"):
        given.pop("LD_PRELOAD", None)  # its libraries are in the place, not where it is entered from
    try:
        os.execvpe(argv[0], argv, given)
    except OSError as error:
        return fail(f"cannot start {argv[0]}: {error.strerror}")


def start_elsewhere(entry: "dict[str, Any]", command: list[str], environment: dict[str, str]) -> int:
    """Replace this process by what has another machine's shell start the command there. Returns only on failure."""
    via = entry["via"]
    inherited = dict(os.environ)
    if entry.get("attached"):  # srun passes on all that it inherits
        inherited = {**environment, **{name: os.environ[name] for name in os.environ if name.startswith("SLURM_")}}
    try:
        there = {**environment, **entry.get("variables", {})}
        os.execvpe(via[0], [*via, script_for(entry, command, there)], inherited)
    except OSError as error:
        return fail(f"cannot start {via[0]}: {error.strerror}")


def script_for(entry: "dict[str, Any]", command: list[str], environment: dict[str, str]) -> str:
    """Return the command for another machine's shell, of whatever kind, that joins the place and starts the command.

    Paths are the same there; the user is known there.
    """
    joins = [f"echo $$ > {quoted(folder)}/cgroup.procs || exit 125; " for folder in entry.get("cgroups", ())]
    told = [f"{name}={value}" for name, value in sorted(environment.items()) if name not in KNOWN_THERE]
    cores = ["taskset", "-c", ",".join(map(str, entry["cpus"]))] if entry.get("cpus") else []
    carried = environment_prefix(entry, environment) if entry.get("carry") else []
    words = ["env", *told, *cores, *entry.get("argv", ()), *carried, *command]
    return "exec /bin/sh -c " + quoted("".join(joins) + "exec " + " ".join(map(quoted, words)))


def quoted(word: str) -> str:
    """Return a word as a shell reads it (`shlex.quote`, whose module takes long to import)."""
    return "'" + word.replace("'", "'\"'\"'") + "'"


def environment_prefix(entry: "dict[str, Any]", environment: "dict[str, str]") -> "list[str]":
    """Return the env(1) prefix that passes the variables of the launch and the MPI to a command.

    A variable whose name is a word of the entry's argv is passed by that, because other users see the value here.
    """
    keeps, by_name = entry.get("keeps", ()), entry.get("argv", ())
    passed = {
        name: value
        for name, value in environment.items()
        if (name.startswith(INTO_RANKS) or name in keeps) and name not in by_name
    }
    return ["env", *(f"{name}={value}" for name, value in sorted(passed.items()))]


def parse_json(text: str) -> "Any":
    """Parse JSON with the scanner that the package json is built on; raise ValueError as json does."""
    try:
        from _json import make_scanner

        return make_scanner(Plain)(text.strip(), 0)[0]  # type: ignore[arg-type]
    except (ImportError, StopIteration, SystemError):  # not every Python has it, and it leaves messages to the package
        import json

        return json.loads(text)


class Plain:
    """Default settings of the package json."""

    strict, parse_float, parse_int = True, float, int
    object_hook = object_pairs_hook = parse_constant = None


def read_map() -> "dict[str, Any]":
    """Return the hosts of the launch map that the environment variable names."""
    with open(os.environ["TARE_LAUNCH_MAP"]) as file:
        return dict(parse_json(file.read())["hosts"])


def as_rsh(arguments: list[str]) -> int:
    """Start a command on a host: `[options] HOST COMMAND...`.

    Like rsh, it does not pass on the launcher's environment. Variables that are meant for the launcher alone (above all
    the name of its own agent) break a daemon, and a launch sets its ranks' variables itself.
    """
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in RSH_OPTIONS_WITH_VALUE else rest[1:]
    if not rest:
        return fail("no host given")
    name, command = rest[0], rest[1:]
    if not command:
        return fail(f"no command given for host {name}")
    hosts = read_map()
    if name not in hosts:
        return fail(f"the launch map has no host {name}; it has {', '.join(sorted(hosts))}")
    entry = hosts[name].get("agent")
    if entry is None:
        return fail(f"host {name} has no agent: its ranks are started by the scheduler")
    command = [without_current_folder(word) for word in command]
    if entry.get("attached"):
        command = [" ".join(command).replace(LEAVES, " ")]
    names = (*CARRIED, *(ELSEWHERE if entry.get("via") else ()), *entry.get("keeps", ()))
    environment = {name: os.environ[name] for name in names if name in os.environ}
    environment["TARE_HOST"] = name
    return start(entry, ["/bin/sh", "-c", " ".join(command)] if entry.get("shell", True) else command, environment)


def without_current_folder(command: str) -> str:
    """Return a daemon's command that never adds the current folder, perhaps another user's, to where libraries are."""
    for name in SEARCHED:
        usual = f":${{{name}:-}}"
        for value in (f":${name}", f":${{{name}}}"):
            command = command.replace(value, usual)
        command = command.replace(usual, f"${{{name}:+:${name}}}")
    return command


def of_scheduler(hosts: "dict[str, Any]") -> str:
    """Return the map's name of the host on which Slurm started this rank, "" if Slurm did not start it."""
    node = os.environ.get("SLURMD_NODENAME")
    return next((name for name, host in hosts.items() if node and host.get("alias") == node), "")


def as_rank(command: list[str]) -> int:
    """Start a command as this rank, through the entry of its local rank on this host."""
    hosts = read_map()
    name = os.environ.get("TARE_HOST") or of_scheduler(hosts) or os.uname().nodename
    local = next((int(os.environ[k]) for k in LOCAL_RANK if k in os.environ), None)
    if name not in hosts:
        return fail(f"the launch map has no host {name}; it has {', '.join(sorted(hosts))}")
    if local is None:
        return fail(f"no MPI set its local rank ({', '.join(LOCAL_RANK)})")
    ranks = hosts[name]["ranks"]
    if local >= len(ranks):
        return fail(f"the map has no local rank {local} on host {name}: {len(ranks)} in all")
    return start(ranks[local], staying(command) if ranks[local].get("argv") else command)


def staying(command: list[str]) -> list[str]:
    """Return a command that starts in the launcher's working folder if the place that a rank enters has it."""
    folder = os.getcwd()
    return command if folder == "/" else ["/bin/sh", "-c", STAYS, folder, *command]


def main() -> int:
    """Run as the options say and return the exit status."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["--entry"] and arguments[2:3] == ["--"]:
            return start(parse_json(arguments[1]), arguments[3:])
        if arguments[:1] == ["--rank"]:
            return as_rank(arguments[1:])
        return as_rsh(arguments)
    except KeyError as error:
        return fail(f"{error} is not set: tare-agent is started by tare's launcher")
    except (AttributeError, OSError, TypeError, ValueError) as error:
        return fail(f"cannot read the launch map: {error}")


if __name__ == "__main__":
    sys.exit(main())
