"""Talk to a Kubernetes: its API, commands in pods, what pods are made of. `tare.clusters.kubernetes` is the cluster.

The official client reads the user's kubeconfig, with whatever signs in there; it is imported by the first request.
"""
