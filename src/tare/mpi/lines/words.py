"""What a word of a launch line may be followed by: options that take values, the image, and then the program.

One entry a launcher, wrapper or container; each from the manual of its program. An option that takes its value behind
`=`, or behind its letter (`-n4`), takes no further word, so only values in words of their own are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """Options that stand alone. Where they are given without `has_long_values`, no others are known."""
    numbered: frozenset[str] = frozenset()
    """Options that take the next word if it is a number: they mean two things in two programs of one name."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Options with which ranks cannot be asked, and what to do instead."""
    skips: frozenset[str] = frozenset()
    """Words that may come before the program, and before a verb."""
    before: frozenset[str] = frozenset()
    """Options before the verb that take the next word."""
    show: tuple[str, ...] = ()
    place: str = ""
    """Where the folder is then seen, for those that create no mount points; "" where it is outside."""
    assigns: bool = False
    """Whether words such as `A=B` may come before the program."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


IN_A_FILE: Final = "give one program in the line itself, with the number of its ranks"
TO_A_FILE: Final = "leave it out for the check: what the ranks print must come to where it is read"
MPIRUN: Final = Syntax(
    role=LayerRole.LAUNCHER,
    # Open MPI 4 and 5 (mpirun(1), prterun(1)), Hydra (MPICH, Intel MPI, MVAPICH) and PALS: no option means two things.
    valued=_words(
        "-n --n -np --np -c -N -npernode --npernode -ppn --ppn -perhost --perhost -npersocket --npersocket -H -host "
        "--host -hosts --hosts -hostlist --hostlist -f -hostfile --hostfile -machinefile --machinefile -machine -x "
        "-wdir --wdir -wd --wd -path --path -am --am -tune --tune -map-by --map-by -rank-by --rank-by -bind-to "
        "--bind-to -binding -prefix --prefix --output --timeout -timeout --report-uri -report-uri --report-pid "
        "-report-pid -rankfile --rankfile -rf -cpu-set --cpu-set -cpu-list --cpu-list -cpus-per-proc "
        "--cpus-per-proc -cpus-per-rank --cpus-per-rank -slot-list --slot-list -ppr --ppr --preload-files --stdin "
        "-stdin --personality --runtime-options --rtos --dvm --dvm-uri --display --display-topo --with-ft -with-ft "
        "--forward-signals --ompi-server --launch-agent --xterm -xterm --debugger --pset --max-vm-size "
        "--stream-buffering -tmpdir --tmpdir -genvlist -envlist -launcher --launcher -launcher-exec -rmk -iface "
        "-errfile-pattern -usize -arch -bootstrap -bootstrap-exec -s -topolib -rr-cores -hnp --hnp -max-restarts "
        "--max-restarts -demux -gtool -branch-count -prepend-pattern -pmi-args -gpus-per-proc --depth --cpu-bind "
        "--mem-bind --gpu-bind --exclude-hosts --rlimits --umask --pmi --cc -order-nodes -grr --hostname -hostname"
    ),
    pairs=_words("-mca --mca -gmca --gmca -prtemca --prtemca -pmixmca --pmixmca -env --env -genv --genv"),
    numbered=_words("-d -cc"),
    flags=_words(
        "--allow-run-as-root -allow-run-as-root --oversubscribe -oversubscribe --nooversubscribe -nooversubscribe "
        "--report-bindings -report-bindings --tag-output -tag-output --timestamp-output -timestamp-output "
        "--display-map -display-map --display-allocation -display-allocation --display-devel-map -v --verbose "
        "-verbose -q --quiet -quiet -h --help -help -V --version -version -bind-to-none --bind-to-none "
        "-bind-to-core --bind-to-core -bind-to-socket --bind-to-socket --bynode -bynode --byslot -byslot --bycore "
        "-bycore --bysocket -bysocket -pernode --pernode --use-hwthread-cpus -use-hwthread-cpus "
        "--use-hwthreads-as-cpus --merge-stderr-to-stdout -xml --xml --enable-recovery -enable-recovery "
        "--disable-recovery --continuous -continuous --do-not-launch --do-not-resolve --get-stack-traces "
        "--index-argv-by-rank --keep-fqdn-hostnames --leave-session-attached --novm -novm --preload-binary --nolocal "
        "-nolocal --stop-on-exec --debug-daemons -debug-daemons --debug-daemons-file --debug -debug --debug-devel "
        "-tv --tv --noprefix -noprefix --set-cwd-to-session-dir --show-progress --hetero-nodes -hetero-nodes "
        "--report-child-jobs-separately --parallel -l --label -prepend-rank --prepend-rank -genvall --genvall "
        "-genvnone --genvnone -envall --envall -envnone --envnone -info -print-rank-map --print-rank-map "
        "-print-all-exitcodes -disable-auto-cleanup -enable-x -disable-x -disable-hostname-propagation -trace -t "
        "-check_mpi -noconf -localonly -ordered-output -skip-launch-node -pmi-port -pmi-aggregate "
        "-pmi-noaggregate -ilp64 -ib -IB -dapl -DAPL -rdma -RDMA -tmi -psm -psm2 -mxm -ofi -rr -cleanup -aps "
        "--line-buffer --no-transfer --abort-on-failure --no-abort-on-failure -ssh -rsh -show -legacy"
    ),
    refused={
        **dict.fromkeys(("-app", "--app", "-configfile", "--configfile"), IN_A_FILE),
        **dict.fromkeys(
            ("-output-filename", "--output-filename", "-outfile-pattern", "--outfile-pattern", "-outfile"), TO_A_FILE
        ),
        **dict.fromkeys(("-gdb", "-idb"), "leave the debugger out for the check"),
    },
)
MPIRUN_RSH: Final = Syntax(
    role=LayerRole.LAUNCHER,
    valued=_words("-np -n -hostfile -ppn -config -sg -du -tv"),
    flags=_words("-rsh -ssh -debug -xterm -show -legacy -export -export-all -v -help"),
    refused={"-config": IN_A_FILE},
    assigns=True,
)
SLURM_FLAGS: Final = _words(
    "--exclusive --label --unbuffered --verbose --quiet --overcommit --oversubscribe --share --overlap --exact --whole "
    "--no-allocate --preserve-env --kill-on-bad-exit --no-kill --disable-status --hold --immediate --interactive "
    "--reboot --spread-job --use-min-nodes --contiguous --no-requeue --requeue --wait-all-nodes --x11 --get-user-env "
    "--nice --propagate --bcast --send-libs --compress --resv-ports --quit-on-interrupt --debugger-test --pty --help "
    "--usage --version --stepmgr --external --external-launcher --wait-for-children --no-bell --bell --no-shell "
    "--disable-stdout-job-summary --test-only --multi-prog --container-readonly --container-writable "
    "--container-remap-root --no-container-remap-root --container-mount-home --no-container-mount-home "
    "--no-container-entrypoint --container-entrypoint"
)
SRUN: Final = Syntax(
    role=LayerRole.LAUNCHER,
    letters="AaBbCcDdeFGgijJLmMNnopqrStTUwWx",
    has_long_values=True,
    flags=SLURM_FLAGS,
    refused={
        "--multi-prog": IN_A_FILE,
        "-o": TO_A_FILE,
        "--output": TO_A_FILE,
        "--test-only": "leave it out: nothing is started with it",
    },
)
SALLOC: Final = Syntax(
    role=LayerRole.WRAPPER, letters=SRUN.letters.replace("o", ""), has_long_values=True, flags=SLURM_FLAGS
)
FLUX: Final = Syntax(
    role=LayerRole.LAUNCHER,
    verbs=frozenset({"run"}),
    skips=frozenset({"mini"}),
    letters="nNcgtqBoSO",
    has_long_values=True,
    flags=_words("--exclusive --label-io --unbuffered --verbose --watch --wait --quiet --dry-run --debug --log-stderr"),
    refused={"-O": TO_A_FILE, "--output": TO_A_FILE, "--dry-run": "leave it out: nothing is started with it"},
)
APPTAINER: Final = Syntax(
    role=LayerRole.CONTAINER,
    verbs=frozenset({"exec", "run"}),
    valued=_words(
        "-B --bind --mount --env --env-file -H --home -W --workdir --pwd --cwd -S --scratch -o --overlay "
        "--network --network-args --dns --hostname --add-caps --drop-caps --security --apply-cgroups --app "
        "--fusemount --docker-host --memory --memory-swap --memory-reservation --cpus --cpuset-cpus --cpuset-mems "
        "--cpu-shares --pids-limit --shm-size --blkio-weight --blkio-weight-device --oom-score-adj --pem-path "
        "--no-mount --config --arch --authfile --device --cdi-dirs"
    ),
    flags=_words(
        "-e --cleanenv -c --contain -C --containall -i --ipc -p --pid -n --net -u --userns -f --fakeroot --uts --nv "
        "--nvccli --rocm --no-home --no-init --no-umask --no-privs --no-eval --no-https --nohttps --keep-privs "
        "--allow-setuid -w --writable --writable-tmpfs --underlay --disable-cache --no-compat --compat --oci --no-oci "
        "--sharens --passphrase --no-rocm --no-nv --unsquash --no-unsquash --sif-fuse --bind-localtime "
        "--ignore-subuid --ignore-fakeroot-command --ignore-userns --no-pid --no-tmp-sandbox --tmp-sandbox "
        "--no-setgroups --netns-path --vm --syos -s --silent -q --quiet -v --verbose -d --debug --nocolor"
    ),
    before=_words("-c --config"),
    places=1,
    show=("--bind", "{folder}"),
)
DOCKER_FLAGS: Final = _words(
    "--detach --interactive --tty --rm --init --privileged --read-only --publish-all --no-healthcheck "
    "--oom-kill-disable --sig-proxy --disable-content-trust --rootfs --env-host --replace --quiet --tls-verify "
    "--no-hosts --no-hostname --passwd --mpi --gpu --nccl --cvmfs --openmpi-pmi2 --openmpi-pmix "
    "--read-only-tmpfs --http-proxy --rmi --unsetenv-all --use-api-socket --ssh --glibc --init-pid"
)
NOT_AWAY: Final = "leave it out: a container in the background gives its ranks' answers to nobody"
OF_THE_IMAGE: Final = "leave it out, and give the program behind the image"
DOCKER_GLOBAL: Final = _words(
    "-c --context -H --host -l --log-level --config --tlscacert --tlscert --tlskey --root --runroot --storage-driver "
    "--storage-opt --url --connection --identity --cgroup-manager --runtime --network-cmd-path --tmpdir --module "
    "-n --namespace -a --address --data-root --snapshotter"
)
DOCKER: Final = Syntax(
    role=LayerRole.CONTAINER,
    verbs=frozenset({"run"}),
    letters="aceghlmpuvw",
    has_long_values=True,
    flags=DOCKER_FLAGS,
    refused={"-d": NOT_AWAY, "--detach": NOT_AWAY, "--entrypoint": OF_THE_IMAGE},
    skips=frozenset({"container"}),
    before=DOCKER_GLOBAL,
    places=1,
    show=("--volume", "{folder}:{folder}:ro"),
)
DOCKER_EXEC: Final = Syntax(
    role=LayerRole.INSIDE,
    verbs=frozenset({"exec"}),
    letters="euw",
    has_long_values=True,
    flags=DOCKER_FLAGS,
    refused={"-d": NOT_AWAY, "--detach": NOT_AWAY},
    skips=frozenset({"container"}),
    before=DOCKER_GLOBAL,
    places=1,
)
CH_RUN: Final = Syntax(
    role=LayerRole.CONTAINER,
    valued=_words(
        "-b --bind -c --cd -g --gid -u --uid -m --mount --unset-env --feature -s --storage --join-ct --join-tag "
        "--join-pid"
    ),
    flags=_words(
        "-w --write -W --write-fake -j --join -t --private-tmp --home --no-home --no-passwd --no-syspaths "
        "--set-env --env-no-expand --ch-ssh -v --verbose -q --quiet --warnings --unsafe --seccomp --cdi -d --devices "
        "--fake-syscalls --nv --ldconfig"
    ),
    places=1,
    show=("--bind", "{folder}:/mnt"),
    place="/mnt",
)
KUBECTL: Final = Syntax(
    role=LayerRole.INSIDE,
    verbs=frozenset({"exec"}),
    valued=_words(
        "-c --container -n --namespace --context --kubeconfig --cluster --user -s --server --token "
        "--pod-running-timeout -f --filename --request-timeout"
    ),
    before=_words("-n --namespace --context --kubeconfig --cluster --user -s --server --token --request-timeout"),
    places=1,
)
SYNTAX: Final[Mapping[str, tuple[Syntax, ...]]] = {
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun", "prun", "mpiexec.hydra"), (MPIRUN,)),
    "mpirun_rsh": (MPIRUN_RSH,),
    "salloc": (SALLOC,),
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
            refused={"--entrypoint": OF_THE_IMAGE},
            places=1,
            show=("--mount=type=bind,source={folder},destination={folder}",),
        ),
    ),
    "shifter": (
        Syntax(
            role=LayerRole.CONTAINER,
            valued=_words("-i --image -V --volume -e --env --env-file -w --workdir -m --module"),
            flags=_words("-E --clearenv -v --verbose -h --help --entrypoint --volume-ro"),
            refused={"--entrypoint": OF_THE_IMAGE},
            show=("--volume={folder}:{folder}",),
        ),
    ),
    "env": (Syntax(role=LayerRole.WRAPPER, valued=_words("-u --unset -C --chdir -S --split-string"), assigns=True),),
    "nice": (Syntax(role=LayerRole.WRAPPER, valued=_words("-n --adjustment")),),
    "ionice": (Syntax(role=LayerRole.WRAPPER, valued=_words("-c --class -n --classdata")),),
    "nohup": (Syntax(role=LayerRole.WRAPPER),),
    "stdbuf": (Syntax(role=LayerRole.WRAPPER, valued=_words("-i --input -o --output -e --error")),),
    "taskset": (Syntax(role=LayerRole.WRAPPER, places=1),),
    "chrt": (Syntax(role=LayerRole.WRAPPER, valued=_words("-T -P -D"), places=1),),
    "sudo": (
        Syntax(
            role=LayerRole.WRAPPER,
            valued=_words("-u --user -g --group -h --host -p --prompt -C -T -r -t -D --chdir -R --chroot -U"),
            assigns=True,
        ),
    ),
    "enroot": (
        Syntax(
            role=LayerRole.CONTAINER,
            verbs=frozenset({"start"}),
            valued=_words("-c --conf -e --env -m --mount"),
            flags=_words("-r --root -w --rw"),
            places=1,
            show=("--mount", "{folder}:{folder}"),
        ),
    ),
    "numactl": (
        Syntax(
            role=LayerRole.WRAPPER,
            valued=_words("-i -p -P -N -C -m -l --interleave --preferred --cpunodebind --physcpubind --membind"),
        ),
    ),
    "time": (Syntax(role=LayerRole.WRAPPER, valued=_words("-f --format -o --output")),),
    "timeout": (Syntax(role=LayerRole.WRAPPER, valued=_words("-k --kill-after -s --signal"), places=1),),
    "setarch": (Syntax(role=LayerRole.WRAPPER, skips=_words("x86_64 i686 i386 linux32 linux64 aarch64 uname26")),),
}
"""The layers by the name of their program. Of several entries, the one whose verb follows counts."""
