"""Read a study file: YAML with shorthands -> checked -> `model.Study`. docs/study.md shows every key.

The way of a file: text -> `_Node` tree (each value with its line and its path) -> `_Expander` (shorthands written out,
places kept) -> pydantic models (types and ranges) -> `_check` (what concerns several keys) -> `model.Study`. Whatever
is wrong is collected as `_Problem`s and told at once by one `StudyError`, each with its line, column and path.

No plug-in is imported here: what names exist comes in as `Known`. The file is far longer than most: its steps share the
notion of a place, each is a section, and they are meant to become a package once the file's form has settled.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)

from tare import model, units
from tare.errors import RefusedError, StudyError
from tare.placement import NodeCores, Topology, place

MAX_FILE_BYTES: Final = 1 << 20
MAX_VALUES: Final = 20_000
DEFAULT_IMAGE: Final = "debian-openmpi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The names that a study can use; the registries of plug-ins fill it in the tool itself.

    `imageless` lists the runtimes that can run on the files of the host; every other always has an image, and that
    is `default_image` where the study names none. `sized` and the like say which kernels take which parameter.
    """

    runtimes: tuple[str, ...] = ("bare", "docker", "fake")
    networks: tuple[str, ...] = ("host", "bridge", "direct", "macvlan", "docker-default", "overlay")
    transports: tuple[str, ...] = ("tcp", "shm")
    mpis: tuple[str, ...] = ("openmpi",)
    clusters: tuple[str, ...] = ("lab",)
    kernels: tuple[str, ...] = (
        "latency", "bw", "bibw", "sendrecv", "barrier", "alltoall", "alltoallv", "allgather", "allreduce", "spacing",
    )  # fmt: skip
    imageless: tuple[str, ...] = ("bare", "fake")
    images: tuple[str, ...] = (DEFAULT_IMAGE,)
    default_image: str = DEFAULT_IMAGE
    unsized: tuple[str, ...] = ("barrier",)
    windowed: tuple[str, ...] = ("bw", "bibw")
    paced: tuple[str, ...] = ("spacing",)


KNOWN: Final = Known()


# --- what the tool calls ----------------------------------------------------------------------------------------


def load(path: Path, *, known: Known = KNOWN) -> model.Study:
    """Return the study that a file states; its name is the file's unless it says otherwise.

    Raises `StudyError` with every problem of the file.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, [p.name for p in _beside(path)], 1)
        raise StudyError(
            f"{path}: there is no such file", remedy=f"did you mean {path.with_name(near[0])}?" if near else ""
        ) from None
    except IsADirectoryError:
        raise StudyError(f"{path} is a folder: name the study file in it") from None
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror}") from error
    return parse(_decode(data, str(path)), file=str(path), name=_name_of(path), known=known)


def parse(text: str, *, file: str = "study", name: str = "study", known: Known = KNOWN) -> model.Study:
    """Return the study that a text states; `file` stands before the messages, `name` is used if it has none."""
    problems: list[_Problem] = []
    root = _read_yaml(text, file, problems)
    if root is None:
        raise _error(file, problems)
    tree = _Expander(known, problems).study(root)
    if not isinstance(tree.value, dict):
        problems.append(_Problem(tree, "", f"a study is a mapping of keys to values, not {_kind(tree.value)}"))
        raise _error(file, problems)
    try:
        stated = StudyIn.model_validate(_plain(tree), context=known)
    except ValidationError as error:
        problems += [_explain(tree, dict(detail)) for detail in error.errors()]
        raise _error(file, problems) from None
    study = _to_model(stated, name)
    doubtful = {problem.path.split(".")[0].split("[")[0] for problem in problems}  # a follow-up would only confuse
    findings = [(loc, message) for loc, message in _check(study, stated, known) if loc[0] not in doubtful]
    problems += [_Problem(*_locate(tree, loc), message) for loc, message in findings]
    if problems:
        raise _error(file, problems)
    return study


def environment(name: str, *, known: Known = KNOWN) -> model.Environment:
    """Return the environment that a shorthand such as `docker+overlay` means, or raise `StudyError`."""
    parts, complaint = _read_name(name, known)
    if complaint is not None:
        raise StudyError(f"environment {name!r}: {complaint[1]}")
    return model.Environment(name=name, runtime=parts["runtime"], network=parts["network"], image=parts["image"])


def json_schema(known: Known = KNOWN) -> dict[str, Any]:
    """Return the JSON Schema of study files, shorthands included, for editors."""
    schema = StudyIn.model_json_schema()
    definitions, properties = schema["$defs"], schema["properties"]
    environment_in = definitions["EnvironmentIn"]
    for key, names in [
        ("runtime", known.runtimes),
        ("network", known.networks),
        ("transport", known.transports),
        ("mpi", known.mpis),
    ]:
        environment_in["properties"][key]["enum"] = list(names)
    environment_in.pop("required", None)  # the name may say it
    definitions["KernelIn"]["properties"]["kernel"]["enum"] = list(known.kernels)
    text = {"type": "string"}
    entry = {"anyOf": [{"$ref": "#/$defs/EnvironmentIn"}, text, {"type": "null"}]}
    named = {"type": "object", "additionalProperties": entry, "minProperties": 1}
    properties["environments"] |= {
        "anyOf": [named, {"type": "array", "items": {"anyOf": [text, named]}, "minItems": 1}]
    }
    for key in ("type", "additionalProperties"):
        properties["environments"].pop(key, None)
    properties["cluster"] = _also({"enum": list(known.clusters)}, properties["cluster"])
    properties["placements"] = _also({"$ref": "#/$defs/PlacementIn"}, text, properties["placements"])
    placements = properties["placements"]["anyOf"][-1]
    placements["items"] = {"anyOf": [placements["items"], text]}
    kernels = definitions["WorkloadIn"]["properties"]["kernels"]["anyOf"][0]
    parameters = definitions["KernelIn"]["properties"]
    size = {"type": ["integer", "string"]}
    value = {"anyOf": [size, {"type": "array", "items": size}, {"type": "object"}, {"type": "null"}]}
    short = {
        "type": "object",
        "properties": dict.fromkeys(known.kernels, value)
        | {key: parameters[key] for key in parameters if key != "kernel"},
        "additionalProperties": False,
    }
    kernels["items"] = {"anyOf": [{"enum": list(known.kernels)}, short, kernels["items"]]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def json_schema_text(known: Known = KNOWN) -> str:
    """Return docs/study.schema.json as it should be."""
    return json.dumps(json_schema(known), indent=2, sort_keys=True) + "\n"


# --- text -> nodes with places ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Node:
    """A value of the file: a scalar, a list of nodes or a dict of nodes; line and column count from 1.

    The place is that of the key for a mapping's value, and of the value itself in a list. `text` is a scalar as it
    was written.
    """

    value: Any
    path: str
    line: int
    column: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is wrong at a node; `path` says where in the study, and can go on to a key that is not there."""

    node: _Node
    path: str
    message: str


def _error(file: str, problems: Sequence[_Problem]) -> StudyError:
    """Return the one error that tells all problems, in the order of the file."""
    ordered = sorted(problems, key=lambda p: (p.node.line, p.node.column))
    told = [f"{file}:{p.node.line}:{p.node.column}: {p.path + ': ' if p.path else ''}{p.message}" for p in ordered]
    unique = list(dict.fromkeys(told))
    if len(unique) == 1:
        return StudyError(unique[0])
    return StudyError("\n".join([f"{file} has {len(unique)} problems:", *(f"  {line}" for line in unique)]))


def _decode(data: bytes, file: str) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise StudyError(f"{file} has {len(data)} bytes: that is no study file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise StudyError(
            f"{file}:{line}:{column}: byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8"
        ) from None


def _read_yaml(text: str, file: str, problems: list[_Problem]) -> _Node | None:
    """Return the document as nodes, or raise `StudyError` where it is not YAML."""
    try:
        document = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        raise StudyError(f"{where}: {_yaml_sentence(error)}") from None
    except yaml.YAMLError as error:
        character = getattr(error, "character", "")
        character = chr(character) if isinstance(character, int) else character
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise StudyError(f"{file}:{line}: the character {character!r} is not allowed in YAML") from None
    except RecursionError:
        raise StudyError(f"{file}: it is nested too deeply for a study") from None
    if document is None:
        raise StudyError(f"{file} is empty", remedy="studies/quickstart.yaml is an example to begin with")
    try:
        return _Reader(problems).node(document, "", document.start_mark)
    except RecursionError:
        raise StudyError(f"{file}: an alias (*name) contains itself, or the file is nested too deeply") from None
    except OverflowError:
        raise StudyError(f"{file}: it has more than {MAX_VALUES} values: that is no study file") from None


def _yaml_sentence(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "unknown problem"
    if "'\\t'" in problem:
        return "a tab is used here: indent with spaces"
    if "alias" in problem or "single document" in str(error.context):
        return f"{error.context + ', ' if error.context else ''}{problem}"
    return f"this is not valid YAML: {error.context + ', ' if error.context else ''}{problem}"


_TAGS: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str"))


class _Reader:
    """Turn PyYAML's nodes into ours. Plain scalars follow YAML 1.2: `no` and `on` are text, 010 is ten."""

    def __init__(self, problems: list[_Problem]) -> None:
        self._problems = problems
        self._count = 0

    def node(self, source: yaml.Node, path: str, mark: yaml.Mark) -> _Node:
        """Return `source` as a node at `path`; `mark` is where messages about it point."""
        self._count += 1
        if self._count > MAX_VALUES:
            raise OverflowError
        empty = _Node(None, path, mark.line + 1, mark.column + 1)
        if source.tag not in _TAGS:
            self._problems.append(_Problem(empty, path, f"the tag {source.tag} is not allowed in a study"))
            return empty
        if isinstance(source, yaml.MappingNode):
            return replace(empty, value=self._mapping(source, path))
        if isinstance(source, yaml.SequenceNode):
            items = enumerate(source.value)
            return replace(empty, value=[self.node(item, f"{path}[{i}]", item.start_mark) for i, item in items])
        text = str(source.value)
        plain = isinstance(source, yaml.ScalarNode) and source.style is None
        return replace(empty, value=_scalar(text) if plain else text, text=text)

    def _mapping(self, source: yaml.MappingNode, path: str) -> dict[str, _Node]:
        entries: dict[str, _Node] = {}
        merged: dict[str, _Node] = {}
        for key, value in source.value:
            mark = key.start_mark
            if not isinstance(key, yaml.ScalarNode):
                here = _Node(None, path, mark.line + 1, mark.column + 1)
                self._problems.append(_Problem(here, path, "a key must be one word, not a list or a mapping"))
                continue
            name = str(key.value)
            node = self.node(value, f"{path}.{name}" if path else name, mark)
            if name == "<<" and key.style is None:
                sources = node.value if isinstance(node.value, list) else [node]
                for each in sources:
                    merged = (each.value if isinstance(each.value, dict) else {}) | merged
            elif name in entries:
                first = entries[name].line
                self._problems.append(_Problem(node, node.path, f"this key is given twice; first in line {first}"))
            else:
                entries[name] = node
        return entries | {name: node for name, node in merged.items() if name not in entries}


_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,300}")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")


def _scalar(text: str) -> Any:
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _plain(node: _Node) -> Any:
    if isinstance(node.value, dict):
        return {key: _plain(value) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [_plain(item) for item in node.value]
    return node.value


def _locate(root: _Node, loc: Sequence[str | int]) -> tuple[_Node, str]:
    """Return the node at `loc`, or the last one on the way to it, and the whole path to show."""
    node = root
    for depth, step in enumerate(loc):
        inner: _Node | None = None
        if isinstance(node.value, dict):
            inner = node.value.get(str(step))
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            inner = node.value[step]
        if inner is None:
            return node, ".".join([*([node.path] if node.path else []), *(str(rest) for rest in loc[depth:])])
        node = inner
    return node, node.path


# --- shorthands written out -------------------------------------------------------------------------------------

_PLACEMENT: Final = re.compile(r"(\d{1,6})n? ?x ?(\d{1,6})r?(?: in (\d{1,6})c)?")
_DEFAULT_BYTES: Final = 8
_PARAMETERS: Final = ("message_bytes", "iterations", "warmup", "window", "rate", "sync")


def _read_name(name: str, known: Known) -> tuple[dict[str, str], tuple[str, str] | None]:
    """Return what `runtime[+image][+network]` means, or (field, complaint) as the second."""
    runtime, *rest = name.split("+")
    if runtime not in known.runtimes:
        return {}, ("runtime", _unknown("runtime", runtime, known.runtimes))
    parts = {"runtime": runtime, "network": "host", "image": "" if runtime in known.imageless else known.default_image}
    if rest and rest[0] == "image":
        parts["image"] = known.default_image
        rest = rest[1:]
    if rest:
        parts["network"] = rest[0]
        if rest[0] not in known.networks:
            return {}, ("network", _unknown("network", rest[0], known.networks))
    if len(rest) > 1:
        return {}, ("network", f"{name!r} is not a name of the form runtime[+image][+network]")
    return parts, None


class _Expander:
    """Write shorthands out, so that the tree has one form; what it cannot read becomes a problem."""

    def __init__(self, known: Known, problems: list[_Problem]) -> None:
        self._known = known
        self._problems = problems

    def study(self, root: _Node) -> _Node:
        """Return the study with every shorthand written out."""
        if not isinstance(root.value, dict):
            return root
        expand: dict[str, Callable[[_Node], _Node]] = {
            "cluster": self._cluster,
            "environments": self._environments,
            "placements": self._placements,
            "workloads": self._workloads,
        }
        return replace(root, value={k: expand[k](v) if k in expand else v for k, v in root.value.items()})

    def _complain(self, node: _Node, message: str, below: str = "") -> None:
        self._problems.append(_Problem(node, f"{node.path}{below}", message))

    def _cluster(self, node: _Node) -> _Node:
        if isinstance(node.value, str):
            if node.value not in self._known.clusters:
                self._complain(node, _unknown("cluster", node.value, self._known.clusters))
                return replace(node, value={})
            return replace(node, value={node.value: replace(node, value={}, path=f"{node.path}.{node.value}")})
        if isinstance(node.value, dict):
            return replace(node, value={k: replace(v, value=v.value or {}) for k, v in node.value.items()})
        return node

    def _environments(self, node: _Node) -> _Node:
        items = node.value if isinstance(node.value, list) else [node] if isinstance(node.value, dict) else None
        if items is None:
            return node
        entries: dict[str, _Node] = {}
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

    def _environment(self, name: str, node: _Node) -> _Node:
        """Return the full mapping; what the name says and the mapping leaves out is taken from the name."""
        if node.value is not None and not isinstance(node.value, str | dict):
            return node
        short = node.value if isinstance(node.value, str) else name
        given: dict[str, _Node] = dict(node.value) if isinstance(node.value, dict) else {}
        parts, complaint = _read_name(short, self._known)
        if complaint is not None and not (given and "runtime" in given):
            self._complain(node, complaint[1], f".{complaint[0]}")
            return replace(node, value={"runtime": replace(node, value=self._known.runtimes[0])})
        for key in ("runtime", "network"):
            stated, said = given.get(key), parts.get(key)
            if stated is not None and said in short.split("+") and stated.value != said:
                self._complain(stated, f"the name says {said} and this says {stated.text}: change one of them")
        image = self._image(node, given, parts)
        written = {key: replace(node, value=value, path=f"{node.path}.{key}") for key, value in parts.items()}
        return replace(node, value=written | given | {"image": image})

    def _image(self, node: _Node, given: Mapping[str, _Node], parts: Mapping[str, str]) -> _Node:
        """Return the node of `image` as text; true is the default image and false the files of the host."""
        runtime = given["runtime"].value if "runtime" in given else parts.get("runtime", "")
        needed = runtime in self._known.runtimes and runtime not in self._known.imageless
        default = parts.get("image") or (self._known.default_image if needed else "")
        stated = given.get("image")
        if stated is None:
            return replace(node, value=default, path=f"{node.path}.image")
        value = stated.value
        if value is None or isinstance(value, bool):
            value = self._known.default_image if value else ""
        if value in ("yes", "no", "on", "off", "none", "host"):
            self._complain(stated, f"write true for the default image, false for the host's files, not {value}")
        elif value and value not in self._known.images:
            self._complain(stated, _unknown("image", value, self._known.images))
            value = self._known.default_image
        elif needed and value == "":
            self._complain(stated, f"{runtime} always runs from an image: name one, or leave the key out")
        elif value == "" and parts.get("image"):
            self._complain(stated, "the name says +image and this says none: change one of them")
        return replace(stated, value=value)

    def _placements(self, node: _Node) -> _Node:
        items = node.value if isinstance(node.value, list) else [node]
        if node.value is None:
            return node
        return replace(node, value=[self._placement(item) for item in items])

    def _placement(self, node: _Node) -> _Node:
        if not isinstance(node.value, str):
            return node
        match = _PLACEMENT.fullmatch(node.value)
        if match is None:
            self._complain(node, f"{node.value!r} is not a placement: write it as `2x4` (nodes x ranks per node)")
            return replace(node, value={})
        numbers = zip(("nodes", "ranks_per_node", "containers_per_node"), match.groups(), strict=True)
        return replace(node, value={key: replace(node, value=int(n)) for key, n in numbers if n is not None})

    def _workloads(self, node: _Node) -> _Node:
        if not isinstance(node.value, dict):
            return node
        return replace(node, value={name: self._workload(work) for name, work in node.value.items()})

    def _workload(self, node: _Node) -> _Node:
        if not isinstance(node.value, dict):
            return node
        value = dict(node.value)
        if "kernels" in value and isinstance(value["kernels"].value, list):
            kernels = [kernel for item in value["kernels"].value for kernel in self._kernel(item)]
            value["kernels"] = replace(value["kernels"], value=kernels)
        if "command" in value and isinstance(value["command"].value, list):
            words = [replace(word, value=word.text or word.value) for word in value["command"].value]
            value["command"] = replace(value["command"], value=words)
        return replace(node, value=value)

    def _kernel(self, node: _Node) -> Iterator[_Node]:
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
                told = f"one entry is one kernel, and this names {' and '.join(named) or 'none'}"
                self._complain(node, f"{told}; write `- latency: 8`, with any of {', '.join(_PARAMETERS)} below it")
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


# --- types and ranges -------------------------------------------------------------------------------------------


def _unknown(what: str, name: object, allowed: Iterable[str]) -> str:
    allowed = list(allowed)
    near = difflib.get_close_matches(str(name), allowed, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown {what} {str(name)!r}{hint} (allowed: {', '.join(allowed)})"


def _one_of(family: str, what: str) -> BeforeValidator:
    """Return a validator of the names that `Known` has for a family of plug-ins."""

    def check(value: object, info: ValidationInfo) -> object:
        names: tuple[str, ...] = getattr(info.context or KNOWN, family)
        if value is not None and value not in names:
            raise ValueError(_unknown(what, value, names))
        return value

    return BeforeValidator(check)


def _choice(*names: str) -> Any:
    """Return a validator and a schema of a fixed choice."""

    def check(value: object) -> object:
        if value is not None and value not in names:
            raise ValueError(_unknown("value", value, names))
        return value

    return Annotated[str, BeforeValidator(check), WithJsonSchema({"enum": list(names), "type": "string"})]


def _quantity(parse: Callable[[object], float], *examples: str) -> tuple[BeforeValidator, WithJsonSchema]:
    def read(value: object) -> object:
        return None if value is None else parse(value)

    return BeforeValidator(read), WithJsonSchema({"type": ["number", "string"], "examples": list(examples)})


_BYTES = _quantity(units.parse_bytes, "8", "64KiB", "1MiB")
_SECONDS = _quantity(units.parse_duration, "90s", "5min")
_PERCENT = _quantity(units.parse_fraction, "2%", "0.02")
_BITS = _quantity(units.parse_bit_rate, "10Gbit", "100Mbit")
_HERTZ = _quantity(units.parse_frequency, "10000", "10kHz")

Size = Annotated[int, *_BYTES, Field(le=2**31 - 1)]
Duration = Annotated[float, *_SECONDS, Field(gt=0)]
Percentage = Annotated[float, *_PERCENT, Field(gt=0)]
BitRate = Annotated[int, *_BITS]
Frequency = Annotated[float, *_HERTZ]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Word = Annotated[str, StringConstraints(min_length=1)]


class _Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class LabIn(_Checked):
    """A cluster of namespaces in this machine."""

    nodes: Count | None = Field(
        default=None, description="nodes to make; as many as the largest placement needs if left out"
    )
    cores_per_node: Count | None = Field(
        default=None, description="cores of each node; the machine's, shared out, if left out"
    )
    link_rate: BitRate = Field(default=0, description="rate of each node's data link; 0 leaves it alone")
    wire: _choice("segmented", "unsegmented") = Field(  # type: ignore[valid-type]
        default="unsegmented", description="segmented: frames of MTU size, as on a real wire"
    )
    oversubscribe: bool = Field(default=False, description="nodes may share cores; then no verdict is given")


class ClusterIn(_Checked):
    """Where the nodes come from."""

    lab: LabIn | None = None


class EnvironmentIn(_Checked):
    """What trials run in. A name such as `docker+overlay` says runtime, image and network already."""

    runtime: Annotated[str, _one_of("runtimes", "runtime")]
    network: Annotated[str, _one_of("networks", "network")] = "host"
    image: Annotated[str, WithJsonSchema({"type": ["string", "boolean"]})] = Field(
        default="", description="a recipe's name; true: the default image; false: the host's files"
    )
    transport: Annotated[str, _one_of("transports", "transport")] = "tcp"
    mpi: Annotated[str, _one_of("mpis", "MPI")] = "openmpi"
    sides: _choice(*model.Sides) = Field(  # type: ignore[valid-type]
        default="both", description="which side of a two-node job is put into the environment; the other runs bare"
    )


class PlacementIn(_Checked):
    """Ranks -> containers -> nodes, and binding."""

    nodes: Count = 2
    ranks_per_node: Count = 1
    containers_per_node: Count = 1
    share: _choice(*model.Share) = Field(  # type: ignore[valid-type]
        default="pod", description="pod: the containers of a node share one pod; none: each has its own, and an address"
    )
    binding: _choice(*model.Binding) = Field(  # type: ignore[valid-type]
        default="disjoint", description="disjoint: each rank has cores of its own; mpi-default: as the MPI does"
    )
    threads_per_rank: Count = 1
    oversubscribe: bool = Field(default=False, description="more ranks than cores; then no verdict is given")


class KernelIn(_Checked):
    """One micro-benchmark of a launch; what is left out is the kernel's default."""

    kernel: Annotated[str, _one_of("kernels", "kernel")]
    message_bytes: Size | None = Field(
        default=None, description="bytes per rank per operation; a list means one kernel each"
    )
    iterations: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    warmup: Annotated[int, Field(ge=0, le=100_000_000)] | None = None
    window: Annotated[int, Field(ge=1, le=65536)] | None = Field(
        default=None, description="messages in flight (bw, bibw)"
    )
    rate: Frequency | None = Field(default=None, description="messages a second (spacing)")
    sync: _choice("none", "barrier", "window") | None = Field(  # type: ignore[valid-type]
        default=None, description="how ranks are synchronised before an iteration"
    )


class WorkloadIn(_Checked):
    """What one launch runs: kernels one after the other, or a command of yours."""

    kernels: list[KernelIn] | None = Field(default=None, min_length=1)
    command: list[Word] | None = Field(
        default=None, min_length=1, description="the program and its arguments, one a word"
    )
    time_limit: Duration = Field(default=60.0, description="a launch that takes longer is ended and counted as failed")


class RepetitionIn(_Checked):
    """How often, and when to stop."""

    rounds: Count = Field(default=10, description="rounds to run; 6 at least for a verdict")
    blocks_per_round: Count = 1
    max_rounds: Count | None = Field(
        default=None, description="go on to this many until the intervals are narrow enough"
    )
    budget: Duration | None = Field(default=None, description="begin no round after this much time")
    confidence: Annotated[float, *_PERCENT, Field(ge=0.5, lt=1)] = 0.95
    target_half_width: Percentage = Field(default=0.01, description="an interval of this half-width is narrow enough")


class StudyIn(_Checked):
    """A study: which environments are compared on which workloads, and how often."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$")] | None = Field(
        default=None, description="the results folder's name; the file's name if left out"
    )
    cluster: ClusterIn = ClusterIn(lab=LabIn())
    baseline: Word | None = Field(
        default=None, description="the environment that others are compared with; else the first"
    )
    environments: dict[str, EnvironmentIn] = Field(min_length=1)
    placements: list[PlacementIn] = Field(default=[PlacementIn()], min_length=1)
    workloads: dict[str, WorkloadIn] = Field(min_length=1)
    repetition: RepetitionIn = RepetitionIn()
    margin: Percentage = Field(default=0.02, description="a cost surely smaller than this is called no cost")
    limit: Percentage | None = Field(default=None, description="a cost surely above this makes the exit code 1")
    a_a: bool = Field(default=True, description="run the baseline twice, to see the noise floor")
    seed: int = Field(default=1, ge=0, lt=2**63, description="of the random order in each block")


def _explain(root: _Node, detail: Mapping[str, Any]) -> _Problem:
    """Return one of pydantic's findings as a problem with its place, in our words."""
    loc: tuple[str | int, ...] = detail["loc"]
    node, path = _locate(root, loc)
    return _Problem(node, path, _sentence(loc, detail, node))


def _sentence(loc: tuple[str | int, ...], detail: Mapping[str, Any], node: _Node) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return _unknown("key", loc[-1], _fields_at(loc[:-1]))
    if kind == "missing":
        return "this key is needed"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if value is None:
        return "this key has no value"
    shown = repr(node.text) if isinstance(node.value, str) else node.text or _kind(value)
    wanted = {
        "model": "a mapping (`key: value` lines)",
        "dict": "a mapping (`name: ...` lines)",
        "list": "a list (`- ...` lines, or [a, b])",
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "string": "text",
    }.get(kind.split("_")[0])
    if wanted and kind.endswith(("_type", "_parsing", "_from_float")):
        return f"this must be {wanted}, not {shown}"
    if kind == "string_pattern_mismatch":
        return f"{shown} can hold letters, digits, dots, dashes and underscores only, and begins with a letter or digit"
    if kind in ("too_short", "string_too_short"):
        return "this is empty: give at least one"
    message = str(detail["msg"])
    for theirs, ours in [
        ("Input should", "this must"),
        ("greater than or equal to", "at least"),
        ("less than or equal to", "at most"),
        ("greater than", "above"),
        ("less than", "below"),
    ]:
        message = message.replace(theirs, ours)
    return f"{message}, not {shown}"


def _fields_at(loc: Sequence[str | int]) -> list[str]:
    """Return the keys that the model at `loc` takes."""
    current: Any = StudyIn
    for step in loc:
        if isinstance(current, type) and issubclass(current, BaseModel):
            current = current.model_fields[str(step)].annotation
        else:
            current = get_args(current)[-1]
        if type(None) in get_args(current):
            current = get_args(current)[0]
    return list(current.model_fields)


def _kind(value: object) -> str:
    kinds: list[tuple[type | tuple[type, ...], str]] = [(dict, "a mapping"), (list, "a list"), (type(None), "nothing")]
    return next((word for types, word in kinds if isinstance(value, types)), repr(value))


# --- to the model, and what concerns several keys ---------------------------------------------------------------


def _to_model(stated: StudyIn, name: str) -> model.Study:
    environments = tuple(
        model.Environment(name=each, **{**fields.model_dump(), "sides": model.Sides(fields.sides)})
        for each, fields in stated.environments.items()
    )
    placements = tuple(
        model.Placement(**{**p.model_dump(), "share": model.Share(p.share), "binding": model.Binding(p.binding)})
        for p in stated.placements
    )
    lab = stated.cluster.lab or LabIn()
    repeat = stated.repetition
    return model.Study(
        name=stated.name or name,
        cluster="lab",
        lab=model.LabSpec(
            nodes=lab.nodes or max(p.nodes for p in placements),
            cores_per_node=lab.cores_per_node,
            link_rate_bps=lab.link_rate,
            segmented=lab.wire == "segmented",
            oversubscribe=lab.oversubscribe,
        ),
        baseline=environments[0].name if stated.baseline is None else stated.baseline,
        environments=environments,
        placements=placements,
        workloads=tuple(_to_workload(each, fields) for each, fields in stated.workloads.items()),
        repetition=model.Repetition(
            rounds=repeat.rounds,
            blocks_per_round=repeat.blocks_per_round,
            max_rounds=repeat.max_rounds or repeat.rounds,
            budget_s=repeat.budget,
            confidence=repeat.confidence,
            target_half_width=repeat.target_half_width,
        ),
        margin=stated.margin,
        limit=stated.limit,
        self_comparison=stated.a_a,
        seed=stated.seed,
    )


def _to_workload(name: str, stated: WorkloadIn) -> model.Workload:
    kernels = tuple(
        model.KernelSpec(rate_hz=kernel.rate, **kernel.model_dump(exclude={"rate"})) for kernel in stated.kernels or ()
    )
    command = tuple(stated.command or ())
    return model.Workload(name=name, kernels=kernels, command=command, time_limit_s=stated.time_limit)


_Finding = tuple[tuple[str | int, ...], str]


def _check(study: model.Study, stated: StudyIn, known: Known) -> Iterator[_Finding]:
    """Yield what is wrong between keys, as (place, sentence)."""
    yield from _check_environments(study)
    yield from _check_placements(study)
    for workload in study.workloads:
        here = ("workloads", workload.name)
        yield from _check_name(here, workload.name)
        if bool(workload.kernels) == bool(workload.command):
            how = "not both" if workload.kernels else "and has neither"
            yield here, f"a workload has `kernels` or `command`, {how}"
        yield from _check_kernels(here, workload.kernels, known)
    repeat = study.repetition
    if repeat.max_rounds < repeat.rounds:
        yield ("repetition", "max_rounds"), f"max_rounds ({repeat.max_rounds}) is below rounds ({repeat.rounds})"
    if stated.cluster.lab is None:
        yield ("cluster",), f"no cluster is named (allowed: {', '.join(known.clusters)})"


def _check_name(here: tuple[str | int, ...], name: str) -> Iterator[_Finding]:
    if not name.strip() or name != name.strip() or not name.isprintable() or "/" in name or len(name) > 80:
        yield here, f"{name!r} cannot be a name: use up to 80 printable characters without `/`"


def _check_environments(study: model.Study) -> Iterator[_Finding]:
    names = [environment.name for environment in study.environments]
    if study.baseline not in names:
        near = difflib.get_close_matches(study.baseline, names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield ("baseline",), f"{study.baseline!r} is not one of the environments{hint} (they are: {', '.join(names)})"
    if len(names) == 1 and not study.self_comparison:
        yield ("environments",), "one environment and no A/A leave nothing to compare: add another, or `a_a: true`"
    seen: dict[model.Environment, str] = {}
    for environment in study.environments:
        here = ("environments", environment.name)
        yield from _check_name(here, environment.name)
        first = seen.setdefault(replace(environment, name=""), environment.name)
        if first != environment.name:
            yield here, f"this is the same as {first}; for the noise floor use `a_a: true`"


def _check_placements(study: model.Study) -> Iterator[_Finding]:
    seen: dict[model.Placement, int] = {}
    for index, placement in enumerate(study.placements):
        here = ("placements", index)
        first = seen.setdefault(placement, index)
        if first != index:
            yield here, f"this is the same as placement {first + 1}"
        cores = study.lab.cores_per_node or placement.ranks_per_node * placement.threads_per_rank
        node = NodeCores(cores=tuple(range(min(cores, 4096))))
        try:
            place(placement, Topology(nodes=(node,) * min(study.lab.nodes, 4096)))
        except RefusedError as refused:
            yield here, f"{refused.message}" + (f"; {refused.remedy}" if refused.remedy else "")


def _check_kernels(
    here: tuple[str | int, ...], kernels: Sequence[model.KernelSpec], known: Known
) -> Iterator[_Finding]:
    seen: set[tuple[str, int, float | None]] = set()  # what names a metric of the launch
    for index, spec in enumerate(kernels):
        at = (*here, "kernels", index)
        for key, value, takers in [
            ("message_bytes", spec.message_bytes, tuple(k for k in known.kernels if k not in known.unsized)),
            ("window", spec.window, known.windowed),
            ("rate", spec.rate_hz, known.paced),
            ("sync", spec.sync, tuple(k for k in known.kernels if k not in known.paced)),
        ]:
            if value is not None and spec.kernel not in takers:
                yield (*at, key), f"{spec.kernel} takes no {key} (it belongs to {', '.join(takers)})"
        same = (spec.kernel, _DEFAULT_BYTES if spec.message_bytes is None else spec.message_bytes, spec.rate_hz)
        if same in seen:
            yield at, f"{spec.token} is measured twice in this workload: put one of them into a workload of its own"
        seen.add(same)


def _also(*schemas: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": list(schemas)}


def _name_of(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._")[:80] or "study"


def _beside(path: Path) -> Iterable[Path]:
    try:
        return list(path.parent.iterdir())
    except OSError:
        return ()
