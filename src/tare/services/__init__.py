"""Run the daemons that networks and runtimes need on a node: dockerd, etcd, sshd, in its namespaces and cgroup.

In: nodes. Out: context managers that stop the daemons that they started, and clients for them. Imported by networks,
runtimes, clusters and deployment; imports nodes and the host.
"""
