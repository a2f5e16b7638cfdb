"""Do on one node what the head asks for: pods with their network and containers, counters, facts, clean-up.

In: frozen requests that name a deployment. Out: frozen values; what is held stays here, and the head uses no pid of it.
Imported by clusters, which give each node its service, and by all above them.
"""

from tare.node_service.local import LocalNode
from tare.node_service.protocol import NodeService, Phase

__all__ = ["LocalNode", "NodeService", "Phase"]
