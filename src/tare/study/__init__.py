"""Read a study file: YAML with shorthands -> checked -> `model.Study`. docs/study.md shows every key.

A file passes through the modules in this order: text -> `yaml_nodes` (each value with its line and path) -> `shorthand`
(written out, places kept) -> `schema` (types and ranges) -> `convert` -> `checks` (rules between keys) ->
`model.Study`. All mistakes are collected as `Problem`s, each with line, column and path, and reported by one
`StudyError` (`messages`).

`plan` makes cells of it, `feasibility` decides which of them can run here.

No plug-in is imported here: the names that exist come in as `Known`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from tare import model
from tare.errors import StudyError
from tare.study.checks import check
from tare.study.convert import network_of, to_model
from tare.study.messages import explain, kind_of, study_error
from tare.study.names import KNOWN as KNOWN
from tare.study.names import Known as Known
from tare.study.names import full_name as full_name
from tare.study.names import is_path as is_path
from tare.study.names import read_name
from tare.study.other_cluster import moved as moved
from tare.study.schema import StudyIn
from tare.study.shorthand import Expander
from tare.study.yaml_nodes import MAX_FILE_BYTES, Problem, YamlNode, decode, locate, nodes_of, plain, read_yaml

NEAR: Final = 0.75
"""How alike the name of a file must be to one that is not there: two letters may differ in eight."""


def load(path: Path, *, known: Known = KNOWN) -> model.Study:
    """Return the study in a file; it is named after the file unless the file gives a name.

    Raises `StudyError` with every problem of the file.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)  # a device has no end
    except FileNotFoundError:
        near = _nearest(path)
        raise StudyError(
            f"{path}: there is no such file",
            remedy=f"did you mean {near}?" if near else "check the path of the study file",
        ) from None
    except IsADirectoryError:
        raise StudyError(f"{path} is a folder, not a study file", remedy="name the study file in it") from None
    except OSError as error:
        raise StudyError(
            f"{path} cannot be read: {error.strerror}", remedy="check the path and the permissions of the file"
        ) from error
    base = path.absolute().parent
    stated = parse(decode(data, str(path)), file=str(path), name=_name_of(path), known=known, base=base)
    return replace(stated, folder=str(base))


def parse(
    text: str, *, file: str = "study", name: str = "study", known: Known = KNOWN, base: Path | None = None
) -> model.Study:
    """Return the study in a text; messages begin with `file`, and `name` is used if the text gives none.

    Relative paths begin at `base`, by default the current folder.
    """
    problems: list[Problem] = []
    root = read_yaml(text, file, problems)
    if root is None:
        raise study_error(file, problems)
    return _study_of(root, problems, file=file, name=name, known=known, base=base or Path.cwd())


def build(values: Mapping[str, Any], *, file: str, known: Known = KNOWN) -> model.Study:
    """Return the study made of `values`, checked like those of a file; `file` begins every message.

    For commands that make a study from their options: no text is written and read again, so nothing has to be quoted.
    Relative paths begin at the current folder. Raises `StudyError` with every problem.
    """
    return _study_of(nodes_of(values), [], file=file, name="study", known=known, base=Path.cwd())


def _study_of(
    root: YamlNode, problems: list[Problem], *, file: str, name: str, known: Known, base: Path
) -> model.Study:
    tree = Expander(known, problems).study(root)
    if not isinstance(tree.value, dict):
        problems.append(Problem(tree, "", f"a study is a mapping of keys to values, not {kind_of(tree.value)}"))
        raise study_error(file, problems)
    try:
        stated = StudyIn.model_validate(plain(tree), context=known)
    except ValidationError as error:
        problems += [explain(StudyIn, tree, dict(detail)) for detail in error.errors()]
        raise study_error(file, problems) from None
    study = to_model(stated, name, base)
    # Further problems of a key that already has one may only follow from it.
    doubtful = {problem.path.split(".")[0].split("[")[0] for problem in problems}
    findings = [(loc, message) for loc, message in check(study, stated, known) if loc[0] not in doubtful]
    problems += [Problem(*locate(tree, loc), message) for loc, message in findings]
    if problems:
        raise study_error(file, problems)
    return study


def environment(name: str, *, known: Known = KNOWN) -> model.Environment:
    """Return the environment for a shorthand such as `docker+overlay`, or raise `StudyError`."""
    parts, complaint = read_name(name, known)
    if complaint is not None:
        raise StudyError(
            f"environment {name!r}: {complaint[1]}",
            remedy="`tare doctor --all` lists the environments that can run here",
        )
    network = network_of(parts["network"], Path.cwd())
    daemon = parts.get("daemon", "")
    return model.Environment(name=name, runtime=parts["runtime"], network=network, image=parts["image"], daemon=daemon)


def _name_of(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._")[:80] or "study"


def _nearest(path: Path) -> Path | None:
    """Return a study file in the same folder with nearly the same name, or None."""
    try:
        beside = {each.stem: each for each in path.parent.iterdir() if each.suffix in {".yaml", ".yml", path.suffix}}
    except OSError:
        return None
    wanted = path.stem if path.suffix in {".yaml", ".yml"} else path.name
    near = difflib.get_close_matches(wanted, beside, 1, cutoff=NEAR)
    return beside[near[0]] if near else None
