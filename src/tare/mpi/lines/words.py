"""What a word of a launch line may be followed by: options that take values, the image, and then the program.

One entry a launcher, wrapper or container; each from the manual of its program. An option that takes its value behind
`=`, or behind its letter (`-n4`), takes no further word, so only values in words of their own are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class LayerRole(Enum):
    """What a layer of a launch line is for."""

    LAUNCHER = "starts ranks"
    CONTAINER = "starts a container"
    INSIDE = "enters a container that runs already"
    WRAPPER = "changes something and starts a program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """How the words behind a layer's name are read, up to the program.

    `valued` are the options that take the next word, `pairs` those that take the next two. `letters` are those of one
    letter that take the next word where they end a group such as `-it`. All others that begin with a dash stand alone.
    `places` words come before the program (an image, a container, a number), after which `separator` may stand.
    `show` are the words that show a folder inside of it, with `{folder}`. `verbs` are the subcommands that start a
    program; empty if there are none.
    """

    role: LayerRole
    valued: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    letters: str = ""
    places: int = 0
    verbs: frozenset[str] = frozenset()
    has_long_values: bool = False
    """Whether a long option without `=` takes the next word unless it is in `flags`, as with getopt_long."""
    flags: frozenset[str] = frozenset()
    show: tuple[str, ...] = ()
    place: str = ""
    """Where the folder is then seen, for those that create no mount points; "" where it is outside."""
    assigns: bool = False
    """Whether words such as `A=B` may come before the program."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MPIRUN: Final = Syntax(
    role=LayerRole.LAUNCHER,
    # Open MPI 4 and 5 (mpirun(1), prterun(1)), Hydra (MPICH, Intel MPI) and MVAPICH: no option means two things.
    valued=_words(
        "-n --n -np --np -c -N -npernode --npernode -ppn --ppn -perhost -npersocket --npersocket -H -host "
        "--host -hosts --hosts -f -hostfile --hostfile -machinefile --machinefile -machine -x -wdir --wdir "
        "-wd --wd -path --path -am --am -tune --tune -map-by --map-by -rank-by --rank-by -bind-to --bind-to "
        "-binding -app --app -prefix --prefix --output -output-filename --output-filename --timeout -timeout "
        "--report-uri --rankfile -rf -cpu-set --cpu-set --cpu-list -cpus-per-proc --cpus-per-proc -cpus-per- "
        "rank --cpus-per-rank --preload-files --stdin -stdin --personality --runtime-options --dvm --display "
        "--report-state-on-timeout -genvlist -envlist -launcher --launcher -launcher-exec -rmk -iface "
        "-errfile-pattern -outfile-pattern -usize -configfile -arch -bootstrap -bootstrap-exec -s -order- "
        "nodes -topolib -grr -rr-cores --hnp -hnp --max-restarts"
    ),
    pairs=_words("-mca --mca -gmca --gmca -prtemca --prtemca -pmixmca --pmixmca -env -genv --tmpdir"),
)
SRUN: Final = Syntax(
    role=LayerRole.LAUNCHER,
    letters="AaBbCcDdeFGghijLMmNnopqRrSTtUWwx",
    has_long_values=True,
    flags=_words(
        "--exclusive --label --unbuffered --verbose --quiet --overcommit --oversubscribe --overlap --exact "
        "--whole --pty --no-allocate --preserve-env --multi-prog --kill-on-bad-exit --no-kill --disable- "
        "status --hold --immediate --interactive --reboot --spread-job --use-min-nodes --contiguous --no- "
        "requeue --requeue --wait-all-nodes --container-readonly --container-writable --container-remap-root "
        "--no-container-remap-root --container-mount-home --no-container-mount-home --no-container-entrypoint "
        "--container-entrypoint --x11 --get-user-env"
    ),
)
FLUX: Final = Syntax(
    role=LayerRole.LAUNCHER,
    verbs=frozenset({"run", "submit"}),
    letters="nNcgtqBox",
    has_long_values=True,
    flags=_words("--exclusive --label-io --unbuffered --verbose --watch --wait --quiet"),
)
APPTAINER: Final = Syntax(
    role=LayerRole.CONTAINER,
    verbs=frozenset({"exec", "run"}),
    valued=_words(
        "-B --bind --mount --env --env-file -H --home -W --workdir --pwd --cwd -S --scratch -o --overlay "
        "--network --network-args --dns --hostname --add-caps --drop-caps --security --apply-cgroups --app "
        "--fusemount --docker-host --memory --memory-swap --memory-reservation --cpus --cpuset-cpus --cpuset- "
        "mems --cpu-shares --pids-limit --shm-size --blkio-weight --blkio-weight-device --oom-score-adj "
        "--pem-path --passphrase"
    ),
    places=1,
    show=("--bind", "{folder}"),
)
DOCKER_FLAGS: Final = _words(
    "--detach --interactive --tty --rm --init --privileged --read-only --publish-all --no-healthcheck "
    "--oom-kill-disable --sig-proxy --disable-content-trust --rootfs --env-host --replace --quiet --tls- "
    "verify --no-hosts --passwd --mpi --gpu --nccl --cvmfs --openmpi-pmi2 --openmpi-pmix"
)
DOCKER: Final = Syntax(
    role=LayerRole.CONTAINER,
    verbs=frozenset({"run"}),
    letters="aceghlmpuvw",
    has_long_values=True,
    flags=DOCKER_FLAGS,
    places=1,
    show=("--volume", "{folder}:{folder}:ro"),
)
DOCKER_EXEC: Final = Syntax(
    role=LayerRole.INSIDE,
    verbs=frozenset({"exec"}),
    letters="euw",
    has_long_values=True,
    flags=DOCKER_FLAGS,
    places=1,
)
CH_RUN: Final = Syntax(
    role=LayerRole.CONTAINER,
    valued=_words("-b --bind -c --cd -g --gid -u --uid -m --mount --unset-env --feature --ldconfig -s --storage"),
    places=1,
    show=("--bind", "{folder}:/mnt"),
    place="/mnt",
)
KUBECTL: Final = Syntax(
    role=LayerRole.INSIDE,
    verbs=frozenset({"exec"}),
    valued=_words(
        "-c --container -n --namespace --context --kubeconfig --cluster --user -s --server --token --pod- "
        "running-timeout -f --filename --request-timeout"
    ),
    places=1,
)
SYNTAX: Final[Mapping[str, tuple[Syntax, ...]]] = {
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun", "prun", "mpiexec.hydra", "mpirun_rsh"), (MPIRUN,)),
    **dict.fromkeys(("mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich"), (MPIRUN,)),
    "srun": (SRUN,),
    "flux": (FLUX,),
    "apptainer": (APPTAINER,),
    "singularity": (APPTAINER,),
    "docker": (DOCKER, DOCKER_EXEC),
    "podman": (DOCKER, DOCKER_EXEC),
    "podman-hpc": (DOCKER, DOCKER_EXEC),
    "nerdctl": (DOCKER, DOCKER_EXEC),
    "ch-run": (CH_RUN,),
    "kubectl": (KUBECTL,),
    "sarus": (
        Syntax(
            role=LayerRole.CONTAINER,
            verbs=frozenset({"run"}),
            letters="ew",
            has_long_values=True,
            flags=DOCKER_FLAGS,
            places=1,
            show=("--mount=type=bind,source={folder},destination={folder}",),
        ),
    ),
    "shifter": (
        Syntax(
            role=LayerRole.CONTAINER,
            valued=_words("-i --image -V --volume -e --env --env-file -w --workdir -m --module"),
            show=("--volume={folder}:{folder}",),
        ),
    ),
    "env": (Syntax(role=LayerRole.WRAPPER, valued=_words("-u --unset -C --chdir -S --split-string"), assigns=True),),
    "nice": (Syntax(role=LayerRole.WRAPPER, valued=_words("-n --adjustment")),),
    "ionice": (Syntax(role=LayerRole.WRAPPER, valued=_words("-c --class -n --classdata")),),
    "nohup": (Syntax(role=LayerRole.WRAPPER),),
    "stdbuf": (Syntax(role=LayerRole.WRAPPER, valued=_words("-i --input -o --output -e --error")),),
    "taskset": (Syntax(role=LayerRole.WRAPPER, places=1),),
    "numactl": (
        Syntax(
            role=LayerRole.WRAPPER,
            valued=_words("-i -p -P -N -C -m -l --interleave --preferred --cpunodebind --physcpubind --membind"),
        ),
    ),
    "time": (Syntax(role=LayerRole.WRAPPER, valued=_words("-f --format -o --output")),),
    "timeout": (Syntax(role=LayerRole.WRAPPER, valued=_words("-k --kill-after -s --signal"), places=1),),
    "setarch": (Syntax(role=LayerRole.WRAPPER, places=1),),
}
"""The layers by the name of their program. Of several entries, the one whose verb follows counts."""
