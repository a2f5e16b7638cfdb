"""Count what a launch did to interfaces, TCP, the packet path, the scheduler and memory, on each node.

In: a host of a deployment, by its processes, cgroups and watched interfaces. Out: growth between two readings
(`monitor`), by place. One module reads each source of the kernel; what a source says is parsed by pure functions. Used
by whatever deploys, by the run, and by networks that count traffic themselves. Imports `node`, `host` and `model`.
"""
