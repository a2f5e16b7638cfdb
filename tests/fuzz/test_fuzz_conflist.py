"""CNI configurations of anybody: each can be given to plug-ins, or a sentence says what is wrong with it."""

from __future__ import annotations

import json
import os
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.fuzzing import fuzz
from tare.networks.cni import Cni, probe_plugins
from tare.networks.wiring.conflist import VARIABLES, Conflist, Values, fill_in_for_node, own_subnets, refuse
from tare.networks.wiring.conflist_file import read

LAB = ((IPv4Network("10.213.0.0/16"), "the lab's"),)
LONGEST_SENTENCE = 2000
LONGEST_NAME = 255
"""Of a file, in bytes: a plug-in is one."""


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


HUGE, INFINITE = "huge number", "infinite number"
"""Stand for numbers that Python itself does not write."""
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**30, HUGE, INFINITE, float("nan"), float("inf"), "", "x", "\ud800", "\0", "\x1b[2J", "é",
    "a" * 5000, "../../bin/sh", "/dev/zero", "${node}", "${nope}", "${\x1b[2J}", "${" * 400, "${cidr}", "${subnet}",
    "10.${node}.0.0/16", "10.244.0.0/24", "10.244.0.5", "10.213.1.0/24", "0.0.0.0/0", "10.0.0.1/33", "fe80::1/64",
    "255.255.255.255/32", 167772160, [], {}, [[]], [{}], nested(5), nested(40), nested(400),
)  # fmt: skip
VALUES = st.sampled_from(ODD)


def usually(*values: object) -> st.SearchStrategy[Any]:
    """Return one of these, and rarely something odd: a file that is refused at its first word shows little."""
    return st.sampled_from(values * (4 * len(ODD) // len(values)) + ODD)


ADDRESSES = st.sampled_from(
    ("10.244.0.0/24", "10.244.${node}.0/24", "10.50.0.1${node}/24", "${cidr}", "0.0.0.0/0", "x", 5, "1.2.3.4/32")
)
RANGES = st.fixed_dictionaries({}, optional=dict.fromkeys(("subnet", "rangeStart", "rangeEnd"), ADDRESSES | VALUES))
IPAM = st.fixed_dictionaries(
    {"type": usually("host-local", "host-local", "static", "dhcp")},
    optional={
        "subnet": ADDRESSES,
        "rangeStart": st.sampled_from(("10.244.0.5", "10.244.0.250", "9.9.9.9", "${address}", 7)) | VALUES,
        "ranges": st.lists(st.lists(RANGES, max_size=3), max_size=3) | VALUES,
        "addresses": st.lists(st.fixed_dictionaries({"address": ADDRESSES | VALUES}), max_size=3) | VALUES,
    },
)
PLUGINS = st.fixed_dictionaries(
    {"type": usually("macvlan", "ptp", "host-device", "bridge")},
    optional={"ipam": IPAM, "master": usually("${nic}"), "mtu": usually("${mtu}", 1500)},
)
WHOLE = st.fixed_dictionaries(
    {"name": usually("mine"), "plugins": st.lists(PLUGINS, min_size=1, max_size=3)},
    optional={"cniVersion": usually("1.0.0"), "type": VALUES, "ipam": IPAM | VALUES},
)
FILES = st.tuples(
    WHOLE
    | VALUES
    | st.lists(PLUGINS, min_size=1, max_size=2).map(lambda each: {"name": "mine", "plugins": each * 900}),
    st.none() | st.none() | st.none() | st.tuples(st.integers(0, 400), st.binary(max_size=3)),
    st.integers(1, 5),
)


def test_any_file_is_a_configuration_or_a_sentence_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "any.conflist"

    def check(example: tuple[Any, tuple[int, bytes] | None, int]) -> None:
        value, change, nodes = example
        text = json.dumps(value).replace(f'"{HUGE}"', "9" * 5000).replace(f'"{INFINITE}"', "1e999")
        content = bytearray(text.encode())
        if change is not None:
            content[change[0] : change[0] + 1] = change[1]
        path.write_bytes(bytes(content))
        told = judged(str(path), nodes)
        if told is not None:
            assert str(path) in told
            assert told.isprintable(), told
            assert len(told) < LONGEST_SENTENCE

    fuzz(FILES, check)


def judged(path: str, nodes: int) -> str | None:
    """Return what is wrong with a file; what nothing is said of can be given to plug-ins on every node."""
    network = Cni(path)
    assert network.product
    said = network.probe()
    try:
        stated = read(path)
    except ValueError as error:
        wrong = str(error)
    else:
        return judged_values(stated, nodes)
    assert said == wrong == network.refuse(nodes)
    return wrong


def judged_values(stated: Conflist, nodes: int) -> str | None:
    assert len(stated.digest) == 16
    assert (probe_plugins(stated) or "is missing").isprintable()
    if reason := refuse(stated, nodes, lab=LAB):
        return reason
    for node in range(nodes):
        plugins = fill_in_for_node(stated, Values(node=node, nodes=nodes), "/leases")
        text = json.dumps(plugins, allow_nan=False)
        assert not any(f"${{{name}}}" in text for name in VARIABLES)
        assert all(0 < len(os.fsencode(each)) <= LONGEST_NAME and "/" not in each for each in stated.programs)
    own_subnets(stated, nodes)
    return None
