"""Packets pass more devices than in the baseline: veth pairs, bridges, user-mode stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tare.analysis.explain.cause import Change, Clue, changed
from tare.analysis.explain.causes.encapsulation import TUNNELS
from tare.analysis.explain.evidence import Evidence, has_daemon
from tare.analysis.explain.kinds import RUNNING
from tare.networks import HOST, NETWORKS, find
from tare.networks.wiring.plug import Wiring


class Path:
    """The path of a packet is longer."""

    name = "path length"
    words = "longer path of each packet"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here = [device for device in evidence.here.words("path") if device not in TUNNELS]
        base = [device for device in evidence.base.words("path") if device not in TUNNELS]
        network, other = (side.environment.network for side in (evidence.here, evidence.base))
        if here and len(here) > len(base):
            yield Clue(
                text=f"packets pass {', '.join(here)}; in the baseline {', '.join(base) or 'the NIC'}", weight=2.0
            )
        elif network != other and find(network).wiring is not find(other).wiring:
            yield Clue(text=f"the network is {network}, the baseline's is {other}", weight=1.5)
        else:
            return
        if evidence.here.cell.placement.nodes == 1:
            yield Clue(text="the ranks are on one node and share memory", weight=-2.0)

    def change(self, evidence: Evidence) -> Change | None:
        environment, base = evidence.here.environment, evidence.base.environment
        if environment.network == HOST or find(environment.network).without_encapsulation:
            return None  # another network would take the encapsulation away as well
        if has_daemon(environment) and base.network == HOST and not find(environment.network).passes_node:
            if find(environment.network).wiring is Wiring.DOCKER:
                return None
            control = replace(base, network=environment.network, link=environment.link)
            return Change(words=f"the baseline on the network {environment.network}", environment=control, adds=True)
        wanted = base.network if base.network != environment.network else HOST
        runtime_class = base.runtime_class if wanted == base.network else ""  # it may be what chooses the network
        also = f", the runtime class {runtime_class}" if runtime_class else ", no runtime class"
        words = f"the network {wanted}{'' if runtime_class == environment.runtime_class else also}"
        return changed(evidence, words, network=wanted, link=base.link, runtime_class=runtime_class)

    def remedy(self, evidence: Evidence) -> str:
        environment = evidence.here.environment
        others = ", ".join(name for name in interfaces_of_nic() if name != environment.network)
        if has_daemon(environment):
            return f"an interface of the NIC itself (network: {others}), which passes no filter of the daemon"
        return f"the node's own network (network: {HOST}), or an interface of the NIC itself ({others})"


def interfaces_of_nic() -> tuple[str, ...]:
    """Return the networks whose pods have an interface of the NIC, with no bridge and no packet filter on the way."""
    return tuple(name for name, each in NETWORKS.items() if not (each.has_bridge or each.passes_node or each.is_fake))
