"""Whatever a launch prints, it is read or refused with an `OutputError`, and what is read can be stored."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzz.fuzzing import fuzz
from fuzz.mutations import changed_texts, changed_values
from tare.model import Completed, Failed, Trial, TrialKey, Workload
from tare.model.text import printable
from tare.store.codec import decode, encode
from tare.store.results import COLUMN
from tare.workloads import plugin_of
from tare.workloads.output import OutputError
from tare.workloads.programs import PROGRAMS
from unit.workloads import test_miniapps, test_startup, test_workloads
from unit.workloads.programs.known import OUTPUTS
from unit.workloads.programs.test_outputs import CASES, text_of

SHARED = Path(__file__).parents[3] / "shared" / "samples"
"""Outputs of real runs, where there are any; those of the tests are written by hand."""

KEY = TrialKey(cell="c", round=0, block=0, attempt=0)


@cache
def ours() -> dict[str, tuple[Workload, str]]:
    """Return a whole output of each workload that is ours."""
    return {
        "kernels": (test_workloads.MICRO, test_workloads.said()),
        "command": (test_workloads.APP, test_workloads.wall()),
        "miniapp": (test_miniapps.CG, test_miniapps.said()),
        "startup": (test_startup.WARM, test_startup.said()),
    }


def check(workload: Workload, text: str) -> None:
    try:
        parsed = plugin_of(workload).parse(workload, text, test_startup.BEGAN)
    except OutputError as error:
        _is_text(str(error))
        return
    for metric in parsed.metrics:
        assert math.isfinite(metric.value)
        assert metric.value > 0
    assert all(COLUMN.fullmatch(name) for name in parsed.samples)
    outcome = Failed(reason=", ".join(parsed.wrong)) if parsed.wrong else Completed(metrics=parsed.metrics)
    trial = Trial(key=KEY, position=0, started_unix_s=0.0, elapsed_s=1.0, outcome=outcome, ranks=parsed.ranks)
    line = json.dumps(encode(trial), allow_nan=False)
    assert decode(Trial, json.loads(line)) == trial
    assert parsed.metrics or parsed.wrong


def _is_text(said: str) -> None:
    assert said == printable(said)
    assert len(said) <= 4096


def joined(records: list[Any]) -> str:
    return "".join(f"@tare {json.dumps(record)}\n" for record in records)


@pytest.mark.parametrize("kind", ["kernels", "command", "miniapp", "startup"])
def test_an_output_of_ours_is_read_or_refused(kind: str) -> None:
    workload, text = ours()[kind]
    records = [json.loads(line.partition("@tare ")[2]) for line in text.splitlines() if "@tare " in line]
    changed = changed_values([records]).filter(lambda value: isinstance(value, list)).map(joined)
    fuzz(changed_texts([text]) | changed, lambda said: check(workload, said))


def bases() -> list[tuple[str, tuple[str, ...], str]]:
    """Return program, arguments and output of every adapter, and of real runs with the arguments that they had."""
    found = [(output.program, output.arguments, output.text) for output in OUTPUTS]
    found += [(case["program"], tuple(case.get("arguments", ())), text_of(case)) for case in CASES]
    known = {
        "npb33_bt_W_4": ("npb", ("bt.W.4",)), "npb33_cg_A_4": ("npb", ("cg.A.4",)),
        "npb33_is_W_2": ("npb", ("is.W.2",)), "minife_64_2": ("minife", ()),
        "g500_s16_2": ("graph500", ()), "hnn_jones_t20_np2": ("hnn", ("tstop=20",)), "hpl_N2000_2": ("hpl", ()),
        "hpcc_N1000_4.hpccoutf": ("hpcc", ("n=1000", "nb=80")), "hpcg_32_rt10_2.report": ("hpcg", ()),
        "imb_PingPong_2_tcp": ("IMB-MPI1", ("PingPong",)), "imb_Barrier_4_tcp": ("IMB-MPI1", ("Barrier",)),
        "iperf3_tcp_json": ("iperf3", ()), "iperf3_udp_json": ("iperf3", ("-u",)),
        "osu53_latency_2_tcp": ("osu_latency", ()), "osu53_alltoallv_4_tcp": ("osu_alltoallv", ()),
        "osu74stock_bw_validate": ("osu_bw", ("-c",)),
    }  # fmt: skip
    for name, (program, arguments) in known.items():
        found += [(program, arguments, file.read_text()) for file in SHARED.glob(f"{name}.*")]
    assert {program for program, _, _ in found} >= {name for name in PROGRAMS if not name.startswith(("osu_", "IMB-"))}
    return found


def test_an_output_of_every_known_program_is_read_or_refused() -> None:
    head, tail = test_workloads.wall().rsplit("@tare ", 1)
    cases = [
        st.tuples(st.just(Workload(name="p", program=program, arguments=arguments)), changed_texts([text]))
        for program, arguments, text in bases()
    ]
    fuzz(st.one_of(cases), lambda case: check(case[0], f"{head}{case[1]}\n@tare {tail}"))
