"""Set up and undo interfaces, routes and packet filters: the parts that networks are built from.

In: nodes, pods, a study's link settings, CNI configurations. Out: endpoints, and context managers that restore all.
Imported by networks, containers, the launch and deployment; imports nodes, services and the host.
"""
