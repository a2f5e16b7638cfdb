"""The products that can be a cluster's pod network, and what each leaves in a cluster. Pure."""

from __future__ import annotations

from typing import Final

from tare.clusters.pods.pod_networks import details
from tare.clusters.pods.pod_networks.model import Product

CALICO: Final = Product(
    name="Calico",
    images=r"(?:.*/)?(?:mirrored-)?calico[-/]node",
    workloads=r"calico-node(?:-\w{5})?",
    details=details.calico,
    annotations=(f"{details.OF_CALICO}IPv4", f"{details.OF_CALICO}IPv6"),
    condition="CalicoIsUp",
    config_maps=(details.CALICO_CONFIG,),
    namespaces=("kube-system", "calico-system"),
)
NEVER: Final = r"(?!)"
CANAL: Final = Product(
    name="Canal", images=NEVER, workloads=NEVER, details=details.canal, config_maps=(details.CANAL_CONFIG,)
)
FLANNEL: Final = Product(
    name="Flannel",
    images=r"(?:.*/)?(?:mirrored-)?(?:flannel|flannelcni|coreos)?-?flannel",
    workloads=r"kube-flannel(?:-ds)?(?:-\w+)*",
    details=details.flannel,
    annotations=(details.OF_FLANNEL,),
    condition="FlannelIsUp",
    config_maps=(details.FLANNEL_CONFIG,),
    namespaces=("kube-flannel", "kube-system"),
)
PRODUCTS: Final = (
    CALICO,
    FLANNEL,
    Product(
        name="Cilium",
        images=r"(?:.*/)?cilium(?:-ci)?",
        workloads=r"cilium(?:-\w{5})?",
        details=details.cilium,
        annotations=("network.cilium.io/", "io.cilium.network."),
        condition="CiliumIsUp",
        config_maps=(details.CILIUM_CONFIG,),
        namespaces=("kube-system", "cilium"),
    ),
    Product(
        name="Weave Net",
        images=r"(?:.*/)?weave-kube",
        workloads=r"weave-net(?:-\w{5})?",
        details=details.weave,
        condition="WeaveIsUp",
    ),
    Product(name="kindnet", images=r"(?:.*/)?kindnetd?", workloads=r"kindnet(?:-\w{5})?", details=details.kindnet),
    Product(
        name="Antrea",
        images=r"(?:.*/)?antrea(?:-agent)?(?:-ubuntu|-ubi)?",
        workloads=r"antrea-agent(?:-\w{5})?",
        details=details.antrea,
        annotations=("node.antrea.io/",),
        config_maps=("antrea-config",),
    ),
    Product(
        name="OVN-Kubernetes",
        images=r"(?:.*/)?ovn-kube(?:rnetes)?(?:-[a-z]+)?|(?:.*/)?ovn-daemonset(?:-[a-z]+)?",
        workloads=r"ovnkube(?:-node)?(?:-\w{5})?",
        details=details.ovn_kubernetes,
        annotations=("k8s.ovn.org/",),
        config_maps=details.OVN_CONFIGS,
        namespaces=("ovn-kubernetes", "openshift-ovn-kubernetes"),
    ),
    Product(
        name="Kube-OVN",
        images=r"(?:.*/)?kube-ovn",
        workloads=r"kube-ovn-cni(?:-\w{5})?",
        details=details.kube_ovn,
        annotations=("ovn.kubernetes.io/",),
        namespaces=("kube-system", "kube-ovn"),
    ),
)
