"""Read a file of claims; every mistake is reported with its line and column."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from tare.compare.claims.model import Paper
from tare.compare.claims.paper_keys import PaperForm
from tare.errors import StudyError
from tare.study.messages import explain, kind_of, study_error
from tare.study.yaml_nodes import MAX_FILE_BYTES, Problem, decode, plain, read_yaml


def read_paper(path: Path) -> Paper:
    """Return the publication and its claims in a file; raise `StudyError` with every problem of the file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise StudyError(
            f"{path} cannot be read: {error.strerror}", remedy="name a file of claims such as claims/004.yaml"
        ) from error
    problems: list[Problem] = []
    root = read_yaml(decode(data, str(path)), str(path), problems)
    if root is None:
        raise study_error(str(path), problems)
    if not isinstance(root.value, dict):
        problems.append(
            Problem(root, "", f"a file of claims is a mapping of keys to values, not {kind_of(root.value)}")
        )
        raise study_error(str(path), problems)
    try:
        paper = PaperForm.model_validate(plain(root)).made()
    except ValidationError as error:
        problems += [explain(PaperForm, root, dict(detail)) for detail in error.errors()]
        raise study_error(str(path), problems) from None
    if problems:
        raise study_error(str(path), problems)
    return paper
