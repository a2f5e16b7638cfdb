#!/bin/sh
# Compile our programs inside a root file system, against the MPI in it.
#
# Runs as root of a mount namespace of its own (a user namespace for ordinary users), so its mounts end with it:
# $1 root folder, $2 the kernels' sources, $3 those of the mini-applications, $4 folder to put the result in, $5 MPI
# compiler, $6 prefix of installation, $7 a folder that is shown at its own path (an MPI that is not Debian's), if any.
set -eu
root=$1
kernels=$2
miniapps=$3
result=$4
compiler=$5
prefix=$6
brought=${7:-}

mkdir -p "$root/tare-src/kernels" "$root/tare-src/miniapps" "$root/tare-out"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$kernels" "$root/tare-src/kernels"
mount --bind "$miniapps" "$root/tare-src/miniapps"
mount --bind "$result" "$root/tare-out"
if [ -n "$brought" ]; then
	mkdir -p "$root$brought"
	mount --bind "$brought" "$root$brought"
fi

for part in kernels miniapps; do
	chroot "$root" cmake -S "/tare-src/$part" -B "/tmp/$part" \
		-DMPI_C_COMPILER="$compiler" -DCMAKE_INSTALL_PREFIX="$prefix"
	chroot "$root" cmake --build "/tmp/$part" --parallel "$(nproc)"
	DESTDIR=/tare-out chroot "$root" cmake --install "/tmp/$part" --strip
done
