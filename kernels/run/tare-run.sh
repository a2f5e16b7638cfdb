#!/bin/sh
# Run a program of others as one rank of a job: find it, and give one that reads and writes files a folder of its own.
#
#   tare-run [-p PATH | -d FOLDERS] [-f] [-l FILE -n ORDER -b BLOCKINGS] [-o PATTERN] PROGRAM [ARGUMENT...]
#
#   -p PATH       the program itself, or a folder above it; without it PATH is searched, then
#   -d FOLDERS    these, with colons between them; `*` stands for any one folder
#   -f            in a new folder, which is removed at the end
#   -l FILE       write FILE there, in the form that HPL and hpcc read
#   -n n=N        the order of its matrix, or memory=F: as fills the share F of this node's memory (all ranks together)
#   -b NB,NB,...  its blocking factors
#   -o PATTERN    print these files to standard output when the program has ended: what is written in a container
#                 could be read from nowhere else
#
# Ends as the program does, or with 127 (not found) or 2 (anything else that is wrong).
set -eu
export LC_ALL=C

stop() { # exit status, sentence
	printf 'tare-run: %s\n' "$2" >&2
	exit "$1"
}

program() { # prints where the program is
	if [ -n "$path" ]; then
		[ ! -f "$path" ] || { printf '%s\n' "$path" && return; }
		places="$path:$path/bin:$path/libexec/osu-micro-benchmarks/mpi/*:$path/mpi/*:$path/*"
	else
		! command -v "$1" || return 0
		places=$defaults
	fi
	IFS=:
	for place in $places; do # unquoted: split at colons, * expanded
		if [ -f "$place/$1" ] && [ -x "$place/$1" ]; then
			printf '%s\n' "$place/$1"
			return
		fi
	done
	stop 127 "$1 is neither on PATH nor in ${path:-${defaults:-any other folder}}"
}

ranks() { # prints how many the job has, as its launcher told this one
	for told in "${OMPI_COMM_WORLD_SIZE-}" "${PMI_SIZE-}" "${SLURM_NTASKS-}"; do
		case $told in
		'' | 0 | *[!0-9]*) ;;
		*)
			printf '%s\n' "$told"
			return
			;;
		esac
	done
	stop 2 "the launcher does not tell how many ranks there are (OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_NTASKS)"
}

# The order is a multiple of the first blocking factor when it comes from the memory; 8 bytes an entry.
order() { # how it is told, first blocking factor: prints it
	case $1 in
	n=*) printf '%s\n' "${1#n=}" ;;
	memory=*)
		awk -v share="${1#memory=}" -v nb="$2" '
			/^MemTotal:/ { n = int(sqrt(share * $2 * 1024 / 8) / nb) * nb; print (n > 0 ? n : nb); found = 1; exit }
			END { if (!found) exit 1 }' /proc/meminfo || stop 2 "/proc/meminfo does not tell the memory of this node"
		;;
	*) stop 2 "-n takes n=N or memory=F, not $1" ;;
	esac
}

# The values are in the order that HPL asks for; behind each stands what it is.
hpl_input() { # file, order, blocking factors with commas
	total=$(ranks)
	blocks=$(printf '%s' "$3" | tr ',' ' ')
	n=$(order "$2" "${blocks%% *}")
	rows=$(awk -v n="$total" 'BEGIN { for (p = int(sqrt(n) + .5); p * p > n || n % p; p--); print p }')
	cat >"$1" <<-END
		written by tare-run
		for $total ranks
		HPL.out  name of a file for results
		$device  6: results to standard output
		1  orders
		$n
		$(echo "$blocks" | wc -w)  blocking factors
		$blocks
		0  ranks are dealt by rows
		1  process grids
		$rows  P
		$((total / rows))  Q
		16.0  largest residual that passes
		1  panel factorisations
		2  right-looking
		1  smallest panels
		4
		1  parts of a panel
		2
		1  recursive factorisations
		1  Crout
		1  broadcasts
		1  ring, modified
		1  depths of looking ahead
		1
		2  rows are swapped by a mix of both ways
		64  columns from which it is the other
		0  L1 transposed
		0  U transposed
		1  equilibration
		8  doubles to align to
		here the orders and blocking factors of PTRANS begin, beyond those above
		0  orders
		1
		0  blocking factors
		1
	END
}

path='' defaults='' own='' input='' order='' blocks='' results=''
while getopts p:d:fl:n:b:o: option; do
	case $option in
	p) path=$OPTARG ;;
	d) defaults=$OPTARG ;;
	f) own=yes ;;
	l) input=$OPTARG ;;
	n) order=$OPTARG ;;
	b) blocks=$OPTARG ;;
	o) results=$OPTARG ;;
	*) stop 2 "see the head of this file for what it takes" ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || stop 2 "a program to run is missing"
found=$(program "$1")
shift
[ -n "$own" ] || exec "$found" "$@"

folder=$(mktemp -d /tmp/tare-run.XXXXXX 2>/dev/null || mktemp -d /dev/shm/tare-run.XXXXXX) ||
	stop 2 "neither /tmp nor /dev/shm can be written to, where the program's files would be"
trap 'rm -rf -- "$folder"' EXIT
trap 'exit 143' TERM INT HUP
cd "$folder"
device=6
[ -z "$input" ] || hpl_input "$input" "$order" "$blocks"
status=0
"$found" "$@" || status=$?
for file in $results; do # unquoted: a pattern
	[ ! -f "$file" ] || { echo && cat -- "$file"; }
done
exit "$status"
