"""Outputs among lines of launchers, of many versions and of failed runs are read, or refused with the true reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tare.workloads.output import OutputError
from tare.workloads.programs import PROGRAMS
from tare.workloads.programs.osu import OSU
from unit.workloads.programs.known import FOLDER, OUTPUTS, Output, shown

DATA = Path(__file__).parents[3] / "data" / "outputs"
CASES: list[dict[str, Any]] = yaml.safe_load((DATA / "INDEX.yaml").read_text())


def text_of(case: dict[str, Any]) -> str:
    """Return the output of a case, changed as it says."""
    file = DATA / case["file"]
    text = (file if file.exists() else FOLDER / case["file"]).read_text()
    for old, new in case.get("replace", ()):
        assert old in text
        text = text.replace(old, new)
    if "cut" in case:
        text = text[: text.index(case["cut"])].rstrip() + "\n"
    return f"{case.get('before', '')}{text}{case.get('behind', '')}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['file']}-{case['program']}")
def test_an_output_is_read_or_refused_as_its_index_says(case: dict[str, Any]) -> None:
    try:
        reading = PROGRAMS[case["program"]].read(text_of(case), tuple(case.get("arguments", ())))
        said = ", ".join(reading.wrong)
    except OutputError as error:
        said = str(error)
    if "refused" in case:
        assert said, "it was accepted"
        assert re.search(".*".join(map(re.escape, case["refused"])), said, re.DOTALL), said
        return
    assert said == ""
    values = shown(reading)
    assert {key: values[key] for key in case.get("read", {})} == pytest.approx(case.get("read", {}))
    assert len(reading.metrics) == case.get("metrics", len(values))
    assert case.get("told", "") in ", ".join(figure.label for figure in reading.figures)


def test_every_file_of_the_index_is_used() -> None:
    assert {path.name for path in DATA.iterdir()} - {"INDEX.yaml"} <= {case["file"] for case in CASES}


def each_line(prefix: str) -> Callable[[str], str]:
    return lambda text: re.sub(r"(?m)^(?=.|\n)", prefix, text)


WRAPS: dict[str, Callable[[str], str]] = {
    "mpirun --tag-output": each_line("[1,0]<stdout>:"),
    "mpirun --tag-output, which reads parts of lines": lambda text: each_line("[1,0]<stdout>:")(
        re.sub(r"(?ms)(.{97})(?!^)", r"\1[1,0]<stdout>:", text)
    ),
    "mpirun 5 --output tag": each_line("[prterun-node1-4711@1,0]<stdout>: "),
    "mpirun 5 --output tag-detailed": each_line("[prterun-node1-4711@1,0][node1:4712]<stdout>: "),
    "mpirun --timestamp-output": each_line("Mon Jan  6 10:11:12 2031<stdout>:"),
    "srun -l": each_line("0: "),
    "mpiexec -l": each_line("[0] "),
    "kubectl logs --timestamps": each_line("2031-01-06T10:11:12.123456789Z "),
    "containerd and srun -l": each_line("2031-01-06T10:11:12.123456789Z stdout F 0: "),
    "PALS": each_line("x1000c0s0b0n0.local 0: "),
    "kubectl logs --prefix": each_line("[pod/job-launcher-x7z/launcher] "),
    "docker compose": each_line("ranks-1  | "),
    "Windows": lambda text: text.replace("\n", "\r\n"),
    "terminal": lambda text: text.replace("\n", "\r\r\n"),
    "colours": lambda text: f"\x1b[1;32m{text}\x1b[0m\n",
    "indented, padded": lambda text: re.sub(r"(?m)^(.+)$", r"    \1  ", text),
    "byte order": lambda text: f"\ufeff{text}",
    "modules before": lambda text: f"Loading openmpi/4.1\nSun Jan  5 10:00:00 2031\n2 nodes: n1 n2\n\n{text}",
    "accounting behind": lambda text: f"{text}\nreal\t0m12.3s\nuser 0m1s\nJob 4711 done: 2 tasks, 12.3 s\n",
    "MPI warns before": lambda text: (
        "--------------------------------------------------------------------------\n"
        "WARNING: There was an error initializing an OpenFabrics device.\n\n  Local host:   node1\n"
        f"--------------------------------------------------------------------------\n{text}"
    ),
}


@pytest.mark.parametrize("wrap", WRAPS)
def test_what_launchers_and_terminals_add_changes_nothing(wrap: str) -> None:
    for output in OUTPUTS:
        assert output.read(WRAPS[wrap](output.text)) == output.read(), output.file


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.file)
def test_two_outputs_at_once_are_refused_and_a_failure_behind_one_is_told(output: Output) -> None:
    with pytest.raises(OutputError, match=r"in the output [2-9] times"):
        output.read(output.text * 2)
    failure = "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD"
    assert failure in " ".join(output.read(f"{output.text}{failure}\n").wrong)


@pytest.mark.parametrize(("end", "rows"), [("469.13", 23), ("469.1", 0), ("469.", 0), ("469", 0)])
def test_a_last_row_without_a_line_end_counts_if_it_has_all_decimals(end: str, rows: int) -> None:
    output = next(output for output in OUTPUTS if output.file == "osu5_latency.txt")
    text = output.text[: output.text.rindex("469.13")] + end
    if rows:
        assert len(output.read(text).metrics) == rows
    else:
        with pytest.raises(OutputError, match="row of 4194304 bytes is missing"):
            output.read(text)


TITLES = {
    "osu_latency": "MPI Latency", "osu_bw": "MPI Bandwidth", "osu_bibw": "MPI Bi-Directional Bandwidth",
    "osu_multi_lat": "MPI Multi Latency", "osu_latency_mt": "MPI Multi-threaded Latency",
    "osu_latency_mp": "MPI Multi-process Latency", "osu_mbw_mr": "MPI Multiple Bandwidth / Message Rate",
    "osu_put_latency": "MPI_Put Latency", "osu_get_latency": "MPI_Get latency",
    "osu_acc_latency": "MPI_Accumulate latency", "osu_get_acc_latency": "MPI_Get_accumulate latency",
    "osu_fop_latency": "MPI_Fetch_and_op latency", "osu_cas_latency": "MPI_Compare_and_swap latency",
    "osu_put_bw": "MPI_Put Bandwidth", "osu_get_bw": "MPI_Get Bandwidth",
    "osu_put_bibw": "MPI_Put Bi-directional Bandwidth", "osu_bcast": "MPI Broadcast Latency",
    "osu_alltoall": "MPI All-to-All Personalized Exchange Latency", "osu_allgatherv": "MPI Allgatherv Latency",
    "osu_alltoallv": "MPI All-to-Allv Personalized Exchange Latency", "osu_reduce": "MPI Reduce Latency",
    "osu_reduce_scatter": "MPI Reduce_scatter Latency", "osu_scatterv": "MPI Scatterv Latency",
    "osu_ialltoall": "MPI Non-blocking All-to-All Latency", "osu_ibcast": "MPI Non-Blocking Broadcast Latency",
    "osu_ialltoallw": "MPI Non-blocking All-to-Allw Personalized Exchange Latency",
    "osu_igather": "MPI Non-blocking Gather Latency", "osu_ibarrier": "MPI Non-blocking Barrier Latency",
}  # fmt: skip


@pytest.mark.parametrize("name", TITLES)
def test_a_title_of_osu_is_of_one_test(name: str) -> None:
    columns = {"osu_mbw_mr": "MB/s        Messages/s"}.get(name, "Bandwidth (MB/s)" if "bw" in name else "Latency (us)")
    columns = "Overall(us)       Overlap(%)" if name.startswith("osu_i") else columns
    row = f"{'' if 'barrier' in name else '8    '}{'   '.join('2.50' for _ in columns.split('  ') if _.strip())}"
    size = "" if "barrier" in name else "Size       "
    text = f"# OSU {TITLES[name]} Test v5.6.3\n# {size}{columns}\n{row}\n"
    own = PROGRAMS[name].read(text, ("-m", "8:8"))
    assert [metric.key for metric in own.metrics] == [name if "barrier" in name else f"{name}:8"]
    for other in OSU:
        if other.name != name:
            with pytest.raises(OutputError, match=f"not of {other.name}$"):
                other.read(text, ("-m", "8:8"))
