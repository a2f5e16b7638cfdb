"""Two processes of which each is alone are told as that, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tare.doctor import locality
from tare.errors import CommandFailed
from tare.host.process import Result


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "variables (OMPI_*, PMIX_*, PMI_*) do not reach it"),
        (["PMI_RANK"], "the launcher's variables reach it (PMI_RANK): its MPI, Open MPI v4.1.4, is another"),
    ],
)
def test_ranks_that_are_alone(given: Sequence[str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = locality.MARK + json.dumps({"alone": "Open MPI v4.1.4", "given": given}) + "\n"
    result = Result(argv=(), status=0, stdout=2 * line, stderr="", elapsed_s=1.0)
    monkeypatch.setattr(locality, "run", lambda *_, **__: result)
    with pytest.raises(CommandFailed) as caught:
        locality.ask(("mpirun", "-n", "2"))
    assert "each process is alone (rank 0 of 1)" in str(caught.value)
    assert told in str(caught.value)
    assert caught.value.remedy
