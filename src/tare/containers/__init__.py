"""What runtimes share: the request for a container, namespaces that are held, containers of one pod started together.

In: a request for a pod's containers. Out: namespaces, prefixes that enter them, arguments for a runtime's own program.
Imported by runtimes and deployment; imports wiring, images and nodes.
"""
