"""Write shorthands out in full, so that a study's tree has one form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tare.images import is_known
from tare.images.registry.reference import is_reference
from tare.networks.wiring.conflist import PREFIX
from tare.study.messages import unknown
from tare.study.names import Known, is_path, read_name
from tare.study.yaml_nodes import Problem, YamlNode
from tare.workloads.declared import MiniApp, read
from tare.workloads.declared.declaration import check, choose, find

_PLACEMENT: Final = re.compile(r"(\d{1,6})n? ?x ?(\d{1,6})r?(?: in (\d{1,6})c)?")
_PARAMETERS: Final = ("message_bytes", "iterations", "warmup", "window", "rate", "sync")


class Expander:
    """Write shorthands out; report those that it cannot read as problems, and put a valid value in their place."""

    def __init__(self, known: Known, problems: list[Problem]) -> None:
        self._known = known
        self._problems = problems

    def study(self, root: YamlNode) -> YamlNode:
        """Return the study with every shorthand written out."""
        if not isinstance(root.value, dict):
            return root
        expand: dict[str, Callable[[YamlNode], YamlNode]] = {
            "cluster": self._cluster,
            "environments": self._environments,
            "placements": self._placements,
            "workloads": self._workloads,
        }
        return replace(root, value={k: expand[k](v) if k in expand else v for k, v in root.value.items()})

    def _complain(self, node: YamlNode, message: str, below: str = "") -> None:
        self._problems.append(Problem(node, f"{node.path}{below}", message))

    def _cluster(self, node: YamlNode) -> YamlNode:
        if isinstance(node.value, str):
            if node.value not in self._known.clusters:
                self._complain(node, self._known.unknown("cluster", node.value, self._known.clusters))
                return replace(node, value={})
            return replace(node, value={node.value: replace(node, value={}, path=f"{node.path}.{node.value}")})
        if not isinstance(node.value, dict):
            return node
        named: dict[str, YamlNode] = {}
        for name, settings in node.value.items():
            if name in self._known.clusters:
                named[name] = replace(settings, value={} if settings.value is None else settings.value)
            else:
                self._complain(settings, self._known.unknown("cluster", name, self._known.clusters))
        return replace(node, value=named)

    def _environments(self, node: YamlNode) -> YamlNode:
        items = node.value if isinstance(node.value, list) else [node] if isinstance(node.value, dict) else None
        if items is None:
            return node
        entries: dict[str, YamlNode] = {}
        for item in items:
            stated = item.value if isinstance(item.value, dict) else {item.text: replace(item, value=None)}
            if isinstance(item.value, list):
                self._complain(item, "an environment is a name or `name: {runtime: ...}`, not a list")
                continue
            for name, value in stated.items():
                named = replace(value, path=f"{node.path}.{name}")
                if name in entries:
                    self._complain(named, f"this environment is given twice; first in line {entries[name].line}")
                else:
                    entries[name] = self._environment(name, named)
        return replace(node, value=entries)

    def _environment(self, name: str, node: YamlNode) -> YamlNode:
        """Return the full mapping; keys that the mapping leaves out are taken from the name."""
        if node.value is not None and not isinstance(node.value, str | dict):
            return node
        short = node.value if isinstance(node.value, str) else name
        given: dict[str, YamlNode] = dict(node.value) if isinstance(node.value, dict) else {}
        if "network" in given:
            given["network"] = self._network(given["network"])
        parts, complaint = read_name(short, self._known)
        if complaint is not None and not (given and "runtime" in given):
            self._complain(node, complaint[1], f".{complaint[0]}")
            return replace(node, value={"runtime": replace(node, value=self._known.runtimes[0])})
        for key in ("runtime", "network"):
            stated, named = given.get(key), parts.get(key)
            if stated is not None and named in short.split("+") and stated.value != named:
                self._complain(stated, f"the name says {named}, but this says {stated.text}: change one of them")
        image = self._image(node, given, parts)
        written = {key: replace(node, value=value, path=f"{node.path}.{key}") for key, value in parts.items()}
        return replace(node, value=written | given | {"image": image})

    def _network(self, node: YamlNode) -> YamlNode:
        """Return the node of `network` as text; `{cni: PATH}` is the user's CNI configuration."""
        if not isinstance(node.value, dict):
            return node
        path = node.value.get("cni")
        if len(node.value) == 1 and path is not None and isinstance(path.value, str) and path.value:
            return replace(node, value=f"{PREFIX}{path.value}", text=f"{PREFIX}{path.value}")
        self._complain(node, "write a network by its name, or as {cni: PATH}")
        return replace(node, value="host")

    def _image(self, node: YamlNode, given: Mapping[str, YamlNode], parts: Mapping[str, str]) -> YamlNode:
        """Return the node of `image` as text; true is the MPI's default image, false the files of the host."""
        runtime = given["runtime"].value if "runtime" in given else parts.get("runtime", "")
        needed = runtime in self._known.runtimes and runtime not in self._known.imageless
        usual = self._known.image_for(given["mpi"].value if "mpi" in given else None)
        default = usual if needed or parts.get("image") else ""
        stated = given.get("image")
        if stated is None:
            return replace(node, value=default, path=f"{node.path}.image")
        value = stated.value
        if value is None or isinstance(value, bool):
            value = usual if value else ""
        if value in ("yes", "no", "on", "off", "none", "host"):
            self._complain(stated, f"write true for the default image or false for the host's files, not {value}")
        elif isinstance(value, str) and (is_path(value) or is_reference(value)):
            pass
        elif value and not is_known(str(value), self._known.images):
            path = "; a path begins with / or ./" if "/" in str(value) or "." in str(value) else ""
            self._complain(stated, unknown("image", value, self._known.images) + path)
            value = usual
        elif needed and value == "":
            self._complain(stated, f"{runtime} always runs from an image: name one, or leave the key out")
        elif value == "" and parts.get("image"):
            self._complain(stated, "the name says +image, but this says none: change one of them")
        return replace(stated, value=value)

    def _placements(self, node: YamlNode) -> YamlNode:
        items = node.value if isinstance(node.value, list) else [node]
        if node.value is None:
            return node
        return replace(node, value=[self._placement(item) for item in items])

    def _placement(self, node: YamlNode) -> YamlNode:
        if not isinstance(node.value, str):
            return node
        match = _PLACEMENT.fullmatch(node.value)
        if match is None:
            self._complain(node, f"{node.value!r} is not a placement: write it as `2x4` (nodes x ranks per node)")
            return replace(node, value={})
        numbers = zip(("nodes", "ranks_per_node", "containers_per_node"), match.groups(), strict=True)
        return replace(node, value={key: replace(node, value=int(n)) for key, n in numbers if n is not None})

    def _workloads(self, node: YamlNode) -> YamlNode:
        if not isinstance(node.value, dict):
            return node
        return replace(node, value={name: self._workload(work) for name, work in node.value.items()})

    def _workload(self, node: YamlNode) -> YamlNode:
        if not isinstance(node.value, dict):
            return node
        value = dict(node.value)
        if "kernels" in value and isinstance(value["kernels"].value, list):
            kernels = [kernel for item in value["kernels"].value for kernel in self._kernel(item)]
            value["kernels"] = replace(value["kernels"], value=kernels)
        if "miniapp" in value:
            value["miniapp"] = self._miniapp(value["miniapp"])
        for key in ("command", "arguments"):
            if key in value:
                value[key] = _as_words(value[key])
        if "commands" in value and isinstance(value["commands"].value, list):
            commands = [_as_command(command) for command in value["commands"].value]
            value["commands"] = replace(value["commands"], value=commands)
        if "undo" in value and isinstance(value["undo"].value, list):
            value["undo"] = replace(value["undo"], value=[_as_words(command) for command in value["undo"].value])
        return replace(node, value=value)

    def _miniapp(self, node: YamlNode) -> YamlNode:
        """Return the node of `miniapp` as the text that chooses an application, its class and its values."""
        apps = self._known.miniapps
        some = replace(node, value=next(iter(apps)))
        if isinstance(node.value, dict):
            return self._miniapp_mapping(node, apps) or some
        if not isinstance(node.value, str):
            self._complain(node, "a mini-application is NAME, NAME:class=A,key=value or {NAME: {class: A}}")
            return some
        try:
            return replace(node, value=read(node.value, apps).spec)
        except ValueError as error:
            self._complain(node, str(error))
            return some

    def _miniapp_mapping(self, node: YamlNode, apps: Mapping[str, MiniApp]) -> YamlNode | None:
        """Return the node of `{NAME: {class: A, key: value}}` as text, or None if it has a problem."""
        if len(node.value) != 1:
            named = " and ".join(node.value) or "none"
            self._complain(node, f"a launch runs one mini-application, but this names {named}")
            return None
        ((name, inner),) = node.value.items()
        try:
            app = find(name, apps)
        except ValueError as error:
            self._complain(inner, str(error))
            return None
        if inner.value is not None and not isinstance(inner.value, dict):
            example = f"{{class: {app.classes[:1]}}}"
            self._complain(inner, f"the class and parameters of {name} are a mapping, such as {example}")
            return None
        given: dict[str, YamlNode] = inner.value or {}
        wrong = False
        for key, stated in given.items():
            try:
                check(app, key, stated.text)
            except ValueError as error:
                wrong = True
                self._complain(stated, str(error))
        if wrong:
            return None
        return replace(node, value=choose(app, {key: stated.text for key, stated in given.items()}).spec)

    def _kernel(self, node: YamlNode) -> Iterator[YamlNode]:
        """Yield one full mapping per message size."""
        if isinstance(node.value, str):
            yield replace(node, value={"kernel": node})
            return
        if not isinstance(node.value, dict):
            self._complain(node, "a kernel is a name, `name: size` or `{kernel: name, ...}`")
            yield replace(node, value={"kernel": replace(node, value=self._known.kernels[0])})
            return
        full = dict(node.value)
        heads = [key for key in full if key not in ("kernel", *_PARAMETERS)]
        if "kernel" not in full:
            named = [head for head in heads if head in self._known.kernels] or heads
            if len(named) != 1:
                problem = f"one entry is one kernel, but this names {' and '.join(named) or 'none'}"
                self._complain(node, f"{problem}; write `- latency: 8`, with any of {', '.join(_PARAMETERS)} below it")
                yield replace(node, value={"kernel": replace(node, value=self._known.kernels[0])})
                return
            value = full.pop(named[0])
            full = {"kernel": replace(value, value=named[0], text=named[0])} | full
            inner = value.value if isinstance(value.value, dict) else {"message_bytes": value}
            full |= {key: node for key, node in inner.items() if node.value is not None}
        sizes = full.get("message_bytes")
        if sizes is None or not isinstance(sizes.value, list):
            yield replace(node, value=full)
            return
        if not sizes.value:
            self._complain(sizes, "the list of sizes is empty")
            yield replace(node, value=full | {"message_bytes": replace(sizes, value=None)})
        for size in sizes.value:
            yield replace(node, value=full | {"message_bytes": size})


def _as_words(node: YamlNode) -> YamlNode:
    """Return a list with every word as it was written, so that a number is a word too."""
    if not isinstance(node.value, list):
        return node
    return replace(node, value=[_as_text(word) for word in node.value])


def _as_text(node: YamlNode) -> YamlNode:
    return replace(node, value=node.text or node.value)


def _as_command(node: YamlNode) -> YamlNode:
    """Return the full mapping of a command on a node, which may be its words, and whose answer may be a pattern."""
    if isinstance(node.value, list):
        return replace(node, value={"run": replace(_as_words(node), path=f"{node.path}.run")})
    if not isinstance(node.value, dict):
        return node
    full = dict(node.value)
    if "run" in full:
        full["run"] = _as_words(full["run"])
    expected = full.get("expect")
    if expected is not None and isinstance(expected.value, dict):
        patterns = {key: _as_text(expected.value[key]) for key in ("line", "no_line") if key in expected.value}
        full["expect"] = replace(expected, value=expected.value | patterns)
    elif expected is not None and expected.text:
        line = replace(_as_text(expected), path=f"{expected.path}.line")
        full["expect"] = replace(expected, value={"line": line})
    return replace(node, value=full)
