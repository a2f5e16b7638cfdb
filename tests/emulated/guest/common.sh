# shellcheck shell=sh
# What every job begins with: the machine's name, the file systems that a system has, and what is tested.
set -eu
hostname emulated
echo '127.0.0.1 localhost emulated' >/etc/hosts
ip link set lo up
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
modprobe overlay
# shellcheck disable=SC3045 # dash has it; verbs pin memory, also in a user namespace, where root's right does not count
ulimit -l unlimited

layered() { # type and options of a file system, what, where: it can be written to, and forgets
	mkdir -p "/run/layer$3/low" "/run/layer$3/up" "/run/layer$3/work" "$3"
	mount -t "$1" -o "$2" "$4" "/run/layer$3/low"
	mount -t overlay -o "lowerdir=/run/layer$3/low,upperdir=/run/layer$3/up,workdir=/run/layer$3/work" overlay "$3"
}

CLONE=$(sed -n 's/.*tare\.clone=\([^ ]*\).*/\1/p' /proc/cmdline)
SHARE=trans=virtio,version=9p2000.L,msize=262144,ro,cache=loose
layered 9p "$SHARE" "$CLONE" tare-clone
layered 9p "$SHARE" /opt/tare tare-opt
layered ext4 ro /cache /dev/vdb
export TARE_CACHE=/cache
export TARE="$CLONE/.venv/bin/tare"

begin() { # name: of the part of the log that follows
	echo "== $1"
}
