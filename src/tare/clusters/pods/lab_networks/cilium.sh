#!/bin/sh
# Run Cilium's agent on a node of a lab: as a process with mounts of its own, which end with it.
#
#   cilium.sh FOLDER COMMAND [ARGUMENT...]
#
# The agent sets three of the machine's sysctls, which are no node's own: it gets files in their place. And it wants
# /proc/modules, which a kernel without modules does not have: it gets an empty one. Nothing can be created in /proc, so
# the agent's /proc is a folder of links to the entries of the node's.
set -eu
folder=$1
shift
mkdir -p "$folder/proc" "$folder/links" "$folder/sysctls" "$folder/bpf" "$folder/cgroup" "$folder/state"
mount --rbind /proc "$folder/proc"
for name in kernel/unprivileged_bpf_disabled kernel/timer_migration net/core/bpf_jit_enable; do
	[ ! -e "/proc/sys/$name" ] || {
		cat "/proc/sys/$name" >"$folder/sysctls/${name##*/}"
		mount --bind "$folder/sysctls/${name##*/}" "$folder/proc/sys/$name"
	}
done
for entry in "$folder"/proc/*; do
	case ${entry##*/} in
	[0-9]*) ;; # others' processes
	*) ln -sfn "$entry" "$folder/links/${entry##*/}" ;;
	esac
done
ln -sfn "$folder/proc/$$" "$folder/links/$$"
[ -e "$folder/links/modules" ] || : >"$folder/links/modules"
mount --bind "$folder/links" /proc
exec "$@"
