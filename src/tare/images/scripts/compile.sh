#!/bin/sh
# Compile the kernels inside a root file system, against the MPI in it.
#
# Runs as root of a mount namespace of its own (a user namespace for ordinary users), so its mounts end with it:
# $1 root folder, $2 the kernels' sources, $3 folder to put the result in, $4 MPI compiler, $5 prefix of installation,
# $6 a folder that is shown at its own path (an MPI that is not Debian's), if any.
set -eu
root=$1
sources=$2
result=$3
compiler=$4
prefix=$5
brought=${6:-}

mkdir -p "$root/tare-src" "$root/tare-out"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$sources" "$root/tare-src"
mount --bind "$result" "$root/tare-out"
if [ -n "$brought" ]; then
	mkdir -p "$root$brought"
	mount --bind "$brought" "$root$brought"
fi

chroot "$root" cmake -S /tare-src -B /tmp/build -DMPI_C_COMPILER="$compiler" -DCMAKE_INSTALL_PREFIX="$prefix"
chroot "$root" cmake --build /tmp/build
DESTDIR=/tare-out chroot "$root" cmake --install /tmp/build --strip
