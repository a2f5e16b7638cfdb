"""Share code among runtimes: container requests, held namespaces, starting a pod's containers together.

In: a request for a pod's containers. Out: namespaces, prefixes that enter them, arguments for a runtime's own program.
Imported by runtimes and deployment; imports wiring, images and nodes.
"""
