"""Run the daemons that networks and runtimes need in a node's namespaces and cgroup: dockerd, etcd, sshd.

In: nodes. Out: context managers that stop the daemons that they started, and clients for them. Imported by networks,
runtimes, clusters and deployment; imports nodes and the host.
"""
