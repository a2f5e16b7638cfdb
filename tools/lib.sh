# shellcheck shell=bash
# What the tools of the set-up share. Each sources this file from the repository's root: . tools/lib.sh
# It makes the folder $work, which is removed when the tool ends.

readonly OPT=/opt/tare

work=$(mktemp -d) || {
	printf '%s: no folder can be made in %s: is its disk full?\n' "${0##*/}" "${TMPDIR:-/tmp}" >&2
	exit 5
}
chmod 755 "$work" # apt fetches as a user of its own
trap 'rm -rf -- "$work"' EXIT

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

stop() { # exit code, then lines
	local code=$1
	shift
	printf '%s: %s\n' "${0##*/}" "$1" >&2
	shift
	(($# == 0)) || printf '  %s\n' "$@" >&2
	exit "$code"
}

as_root() {
	if ((EUID == 0)); then
		"$@"
	else
		sudo -- "$@"
	fi
}

quiet() { # what to say when it fails, then a command whose output is shown only then
	local failure=$1 log
	shift
	log=$(mktemp "$work/log.XXXXXX")
	"$@" >"$log" 2>&1 </dev/null || {
		tail -n 8 -- "$log" >&2
		stop 5 "$failure" "see the message above, then run the same command again"
	}
}

need() { # programs, each as its package is called
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || stop 5 "$program is missing" "apt-get install $program"
	done
}

need_venv() {
	[[ -x .venv/bin/python ]] || stop 5 "there is no virtual environment yet, whose pip is used" "tools/bootstrap run"
}

need_debian() { # what to do elsewhere
	local ID='' VERSION_ID=''
	# shellcheck source=/dev/null
	[[ -r /etc/os-release ]] && . /etc/os-release
	[[ $ID == debian && $VERSION_ID == 12 && $(dpkg --print-architecture) == amd64 ]] ||
		stop 5 "only Debian 12 on amd64 is served here" "$1"
}

pip() {
	.venv/bin/python -m pip --quiet --disable-pip-version-check --no-input "$@"
}

digest() { # of files
	cat -- "$@" | sha256sum | cut -c1-32
}

put_in_place() { # folder, where it goes: whole or not at all, as root's
	as_root mkdir -p -- "${2%/*}"
	as_root rm -rf -- "$2.new"
	as_root cp -R --preserve=mode,timestamps,links -- "$1" "$2.new"
	as_root rm -rf -- "$2"
	as_root mv -- "$2.new" "$2"
}

# --- Debian's packages ----------------------------------------------------------------------------------------

debian_address() { # prints where this machine gets Debian 12 from
	# shellcheck disable=SC2016 # the fields are apt's, not the shell's
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
		awk '$2 == "bookworm" && $3 == "main" && $4 == "Debian" { print $1; exit }'
}

use_release() { # deb or deb-src, release: what other_apt reads, at the address from which this machine gets Debian 12
	local address signed='' keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	address=$(debian_address)
	[[ -n $address ]] || stop 5 "apt has no sources of Debian 12 here" "run apt-get update, then the same command again"
	[[ -r $keyring ]] && signed="[signed-by=$keyring] "
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
	printf '%s %s%s %s main\n' "$1" "$signed" "$address" "$2" >"$work/sources.list"
	quiet "Debian $2 cannot be reached where this machine gets Debian 12 from" other_apt apt-get update
}

other_apt() { # program of apt, then its arguments; $work holds sources, indexes and cache, and the machine's are left alone
	local program=$1
	shift
	"$program" -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root \
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

fetch() { # folder, packages of Debian 12: fetched and unpacked to it
	local folder=$1 deb
	shift
	mkdir -p "$folder.debs"
	if ! (cd "$folder.debs" && apt-get download -qq "$@") >/dev/null 2>&1; then
		quiet "apt-get update failed" as_root apt-get update -qq
		(cd "$folder.debs" && quiet "these packages cannot be fetched: $*" apt-get download -qq "$@")
	fi
	for deb in "$folder.debs"/*.deb; do
		quiet "$deb could not be unpacked" dpkg-deb --extract "$deb" "$folder"
	done
}

unpack_debian() { # folder below /opt/tare, packages: for what would start a daemon on this machine if it were installed
	fetch "$work/$1" "${@:2}"
	chmod -R go+rX "$work/$1"
	put_in_place "$work/$1" "$OPT/$1"
}
