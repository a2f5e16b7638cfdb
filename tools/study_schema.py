"""Make the JSON Schema of study files, shorthands included, for editors; tools/frames_page.py writes it to docs/."""

from __future__ import annotations

from typing import Any, Final

from tare.networks.wiring.conflist import PREFIX
from tare.networks.wiring.transports import NAMES
from tare.study.command_keys import WORD
from tare.study.names import KNOWN, Known
from tare.study.schema import StudyIn
from tare.workloads.declared import MiniApp
from tare.workloads.declared.declaration import CLASS, OFFICIAL, PACE

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NOTHING: Final[Schema] = {"type": "null"}
SIZE: Final[Schema] = {"type": ["integer", "string"]}


def json_schema(known: Known = KNOWN) -> Schema:
    """Return the JSON Schema of study files: that of the pydantic models, with the names in `known` and shorthands."""
    schema = StudyIn.model_json_schema()
    definitions, properties = schema["$defs"], schema["properties"]
    _state_environment(definitions["EnvironmentIn"], known)
    definitions["KernelIn"]["properties"]["kernel"]["enum"] = list(known.kernels)
    properties["cluster"] = _clusters(properties["cluster"], known)
    properties["environments"] = _environments(properties["environments"])
    properties["placements"] = _placements(properties["placements"])
    kernels = definitions["WorkloadIn"]["properties"]["kernels"]["anyOf"][0]
    kernels["items"] = _kernels(kernels["items"], definitions["KernelIn"]["properties"], known)
    workload = definitions["WorkloadIn"]["properties"]
    workload["miniapp"] = _miniapps(workload["miniapp"], known)
    workload["mpi"]["anyOf"][0]["enum"] = list(known.mpis)
    _state_commands(definitions["CommandIn"]["properties"], workload["commands"]["anyOf"][0])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _state_environment(environment_in: Schema, known: Known) -> None:
    for key, names in [
        ("runtime", known.runtimes),
        ("network", known.networks),
        ("mpi", known.mpis),
        ("daemon", known.daemons),
    ]:
        environment_in["properties"][key]["enum"] = list(names)
    environment_in["properties"]["network"] = _networks(environment_in["properties"]["network"])
    detailed = "|".join(name for name in known.transports if NAMES.get(name))
    words = {"type": "string", "pattern": f"^({detailed}):[a-z0-9_]+$"}
    transport = environment_in["properties"]["transport"]
    transport.pop("type", None)
    transport |= _also({"enum": list(known.transports)}, words)
    device = environment_in["properties"]["devices"]
    environment_in["properties"]["devices"] = _also({"enum": ["none", "infiniband", "nvidia", "rocm"]}, device)
    environment_in.pop("required", None)  # the name may contain it


def _state_commands(command: Schema, listed: Schema) -> None:
    """Allow the words of a command in place of its mapping, and a pattern in place of the expected answer."""
    listed["items"] = _also(listed["items"], {key: command["run"][key] for key in ("type", "items", "minItems")})
    answer = command["expect"]
    ref = {"$ref": answer.pop("$ref")} if "$ref" in answer else {"allOf": answer.pop("allOf")}
    command["expect"] = answer | _also(WORD, ref)


def _networks(stated: Schema) -> Schema:
    """Return the schema of a name, or of a mapping or text with the path of a CNI configuration."""
    path = {"type": "string", "minLength": 1}
    mapping = {"type": "object", "properties": {"cni": path}, "required": ["cni"], "additionalProperties": False}
    named = {key: stated[key] for key in ("type", "enum")}
    kept = {key: value for key, value in stated.items() if key not in named}
    return kept | _also(named, {"type": "string", "pattern": f"^{PREFIX}."}, mapping)


def _clusters(stated: Schema, known: Known) -> Schema:
    """Return the schema of a name, or of one name with its settings."""
    settings = _also({"$ref": "#/$defs/ClusterIn"}, NOTHING)
    single = {"properties": dict.fromkeys(known.clusters, settings), "minProperties": 1, "maxProperties": 1}
    return _also({"enum": list(known.clusters)}, stated | single | {"additionalProperties": False})


def _environments(stated: Schema) -> Schema:
    """Return the schema of a mapping by name, or of a list of names and such mappings."""
    entry = _also({"$ref": "#/$defs/EnvironmentIn"}, TEXT, NOTHING)
    named = {"type": "object", "additionalProperties": entry, "minProperties": 1}
    kept = {key: value for key, value in stated.items() if key not in ("type", "additionalProperties")}
    return kept | _also(named, {"type": "array", "items": _also(TEXT, named), "minItems": 1})


def _placements(stated: Schema) -> Schema:
    """Return the schema of one placement, or of a list; each is a mapping or a text such as `2x4`."""
    listed = stated | {"items": _also(stated["items"], TEXT)}
    return _also({"$ref": "#/$defs/PlacementIn"}, TEXT, listed)


def _kernels(full: Schema, parameters: Schema, known: Known) -> Schema:
    """Return the schema of a name, of `name: size` with any further parameters, or of the full mapping."""
    value = _also(SIZE, {"type": "array", "items": SIZE}, {"type": "object"}, NOTHING)
    further = {key: parameters[key] for key in parameters if key != "kernel"}
    short = {
        "type": "object",
        "properties": dict.fromkeys(known.kernels, value) | further,
        "additionalProperties": False,
    }
    return _also({"enum": list(known.kernels)}, short, full)


def _miniapps(stated: Schema, known: Known) -> Schema:
    """Return the schema of `NAME:key=value,...`, or of one name with a mapping of its class and values."""
    named = {
        "type": "object",
        "properties": {app.name: _also(_miniapp(app), NOTHING) for app in known.miniapps.values()},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    kept = {key: value for key, value in stated.items() if key != "anyOf"}
    words = {"type": "string", "pattern": f"^({'|'.join(known.miniapps)})(:.+)?$"}
    return kept | _also(words, named)


def _miniapp(app: MiniApp) -> Schema:
    properties: Schema = {CLASS: {"enum": list(app.classes)}} if app.classes else {}
    for each in app.parameters:
        limits = {"minimum": each.low, "maximum": each.high, "default": each.usual}
        value: Schema = {"type": "integer", "description": each.meaning} | limits
        properties[each.name] = _also(value, {"const": OFFICIAL}) if each.name == PACE else value
    return {"type": "object", "properties": properties, "additionalProperties": False, "description": app.description}


def _also(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}
