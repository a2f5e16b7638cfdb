# shellcheck shell=sh
# A ping-pong of MPI over UCX and verbs between two soft-RoCE devices on the ends of a cable (a veth pair), native and
# in a container. Both devices are in the machine's own network namespace, for Linux 6.1 has soft-RoCE in no other.
# They know each other by link-local IPv6 addresses: between IPv4 addresses of one host nothing would take the cable.
modprobe -a rdma_rxe ib_uverbs veth
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

ip link add cable0 type veth peer name cable1
for end in 0 1; do
	sysctl -qw "net.ipv6.conf.cable$end.accept_dad=0"
	ip link set "cable$end" mtu 4200 up
done
sleep 2 # until both have their link-local addresses, of which the devices make their GIDs
for end in 0 1; do
	rdma link add "rxe$end" type rxe netdev "cable$end"
done
begin devices
rdma link

counts() { # packets that each device, and each end of the cable, has sent and received
	for end in 0 1; do
		for way in sent rcvd; do
			echo "rxe$end $way $(cat "/sys/class/infiniband/rxe$end/ports/1/hw_counters/${way}_pkts")"
		done
		echo "cable$end sent $(cat "/sys/class/net/cable$end/statistics/tx_packets")"
	done
}

ping_pong() { # name of the part, the folder of our programs, then what is put before them
	begin "$1 before"
	counts
	begin "$1"
	name=$1 program="$2/bin/tare-kernels --no-samples latency:bytes=8,iterations=50 bw:bytes=65536,iterations=5,window=4"
	shift 2
	ucx="--mca pml ucx --mca btl ^openib -x UCX_TLS=rc_v,ud_v,self -x UCX_LOG_LEVEL=info"
	# shellcheck disable=SC2086
	timeout 60 mpirun --oversubscribe --bind-to none -np 1 $ucx -x UCX_NET_DEVICES=rxe0:1 "$@" $program : \
		-np 1 $ucx -x UCX_NET_DEVICES=rxe1:1 "$@" $program 2>&1 || echo "failed with $?"
	begin "$name after"
	counts
}

IMAGE=$(echo /cache/images/*/rootfs)
mkdir /tmp/above /tmp/work /tmp/image
mount -t overlay -o "lowerdir=$IMAGE,upperdir=/tmp/above,workdir=/tmp/work" overlay /tmp/image
# the user-space driver, which the image of our recipe has not
cp -a /etc/libibverbs.d /tmp/image/etc/
cp -a /usr/lib/x86_64-linux-gnu/libibverbs /tmp/image/usr/lib/x86_64-linux-gnu/

ping_pong native "$(echo /cache/kernels/*-openmpi)"
ping_pong container /opt/tare ch-run /tmp/image --
