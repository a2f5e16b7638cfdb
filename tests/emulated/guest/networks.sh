# shellcheck shell=sh
# Networks of tare's own that need more of a kernel than the one of the machine with the tests may have.
modprobe -a veth ipip openvswitch vxlan ipvlan
cd /tmp || exit 1
status=0
timeout 250 "$TARE" run /tare/networks.yaml || status=$?
echo "status $status"
cp -r results /tare/results
