"""Daemons that networks and runtimes need on a node: dockerd, etcd, sshd, in its namespaces and cgroup.

In: nodes. Out: context managers that end what they started, and clients that speak to it.
Imported by networks, runtimes, clusters and deployment; imports nodes and the machine.
"""
