#!/bin/sh
# Leave two root file systems of one mmdebstrap run: what it has installed so far goes to a tar file (the image's
# base), then the compilers are added (the builder's root, which mmdebstrap itself writes out). So both hold the very
# same MPI, and nothing is downloaded twice.
#
# mmdebstrap calls it as its customize hook: $1 root folder, $2 tar file to write, the rest: packages to build with.
# Where $TARE_SAME lists "package version" of all that programs built outside need to fit, no compilers are added:
# then $2.fits is left beside the base.
set -eu
root=$1
base=$2
shift 2

# The machine's own sources and proxy stay out of the image, and so does all that apt can make again.
tar --create --file "$base" --directory "$root" --one-file-system --numeric-owner --sort=name \
	--exclude='./var/lib/apt/lists/*' --exclude='./var/cache/apt/*' --exclude='./var/log/*' --exclude='./tmp/*' \
	--exclude='./etc/apt/sources.list*' --exclude='./etc/apt/apt.conf.d/99mmdebstrap' --exclude='./run/*' \
	--exclude='./etc/ssh/ssh_host_*' \
	--exclude='./var/cache/debconf/*-old' --exclude='./var/lib/dpkg/*-old' --exclude='./proc/*' --exclude='./sys/*' .

fits() {
	[ -n "${TARE_SAME:-}" ] || return 1
	printf '%s\n' "$TARE_SAME" | while read -r package version; do
		[ "$(dpkg-query --admindir="$root/var/lib/dpkg" --show --showformat='${Version}' "$package")" = "$version" ] || exit 1
	done
}
if fits; then
	: >"$base.fits"
	exit 0
fi

# Inside the new root: an apt-get outside would work on the machine's own packages.
DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install --yes --no-install-recommends "$@"
