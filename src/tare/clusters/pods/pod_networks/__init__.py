"""Recognise the pod network of a cluster, with its encapsulation and MTU, from what the user may read of it."""

from tare.clusters.pods.pod_networks.model import ClusterObjects, RecognisedNetwork
from tare.clusters.pods.pod_networks.recognise import recognise

__all__ = ["ClusterObjects", "RecognisedNetwork", "recognise"]
