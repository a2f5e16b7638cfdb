"""What programs of others print becomes typed metrics; cut off, broken or unknown output is refused, never guessed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.model import MetricKind, Placement
from tare.workloads.output import OutputError
from tare.workloads.programs import PROGRAMS
from unit.workloads.programs.known import OUTPUTS, Output, shown

every_output = pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.file)

OTHERS = (
    "[n1:4711] 1 more process has sent help message help-mpi-btl-openib.txt / no device params found",
    "[1731000000.123456] [n1:4711 :0]   ucp_context.c:1774 UCX  WARN  UCP version is incompatible, required: 1.14",
    "INFO:    Converting SIF file to temporary sandbox...",
    "WARNING: While bind mounting '/scratch:/scratch': destination is already in the mount point list",
    "srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1",
    "libibverbs: Warning: couldn't load driver 'libmlx4-rdmav34.so': cannot open shared object file: No such file",
    "ERROR: ld.so: object 'libfoo.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.",
    "Note: The following floating-point exceptions are signalling: IEEE_UNDERFLOW_FLAG IEEE_DENORMAL",
    "[0] MPI startup(): 0       4711     n1         0",
    "--------------------------------------------------------------------------",
    "0.50 1.25 2.75",
    "16 processors",
    "oom_kill 0",
)


def named(file: str) -> Output:
    return next(output for output in OUTPUTS if output.file == file)


@every_output
def test_an_output_is_read_as_it_says_in_times_that_are_costs_and_rates(output: Output) -> None:
    reading = output.read()
    values = shown(reading)
    assert len(values) == len(reading.metrics) == output.metrics
    assert {key: values[key] for key in output.values} == pytest.approx(output.values)
    assert reading.wrong == ()
    for metric in reading.metrics:
        assert metric.value > 0
        assert (metric.kind is MetricKind.RATE) == (metric.done_per_sample > 0)


@every_output
def test_metrics_are_those_that_were_declared_before(output: Output) -> None:
    placement = Placement(nodes=1, ranks_per_node=output.ranks)
    declared = output.adapter.metrics(output.arguments, placement)
    read = output.read().metrics
    if output.file != "imb_rma.txt":  # how many modes a one-sided benchmark has is told by its output
        assert [info.key for info in declared] == [metric.key for metric in read]
    for info in declared:
        for metric in (m for m in read if m.key == info.key):
            assert (info.label, info.kind, info.done_per_sample) == (metric.label, metric.kind, metric.done_per_sample)
            assert (info.rate_unit, info.statistic) == (metric.rate_unit, metric.statistic)


@pytest.mark.parametrize(
    ("file", "figures"),
    [
        ("iperf3_udp.json", {"iperf3.loss": 2.0, "iperf3.jitter": 2.5e-6, "iperf3.packets": 1_250_000}),
        ("iperf3_tcp.json", {"iperf3.retransmits": 12, "iperf3.cpu.sender": 97.5}),
        ("osu7_alltoall_full.txt", {"osu_alltoall.slowest": 7.14e-6, "osu_alltoall.fastest": 4.64e-6}),
        ("imb_nbc.txt", {"Ibcast.overlap": 40.5}),
        ("hpcc.txt", {"hpl.residual": 0.004125, "PTRANS_GBs": 2.25e9, "AvgPingPongLatency_usec": 1.375e-6}),
        ("graph500.txt", {"g500.construction": 0.0125, "g500.edges": 261_818}),
        ("kmi.txt", {"kmi.hits": 0, "kmi.commit": 0.25}),
    ],
)
def test_what_is_told_beside_the_metrics_is_kept_with_its_unit(file: str, figures: dict[str, float]) -> None:
    told = {figure.key: figure.value for figure in named(file).read().figures}
    assert {key: told[key] for key in figures} == pytest.approx(figures)


@pytest.mark.parametrize(
    ("file", "right", "broken", "figure"),
    [
        ("hpcc.txt", "PTRANS_GBs=2.25", "PTRANS_GBs=-1", "PTRANS_GBs"),
        ("osu7_alltoall_full.txt", "  4.64  ", " -4.64  ", "osu_alltoall.fastest"),
        ("graph500.txt", "median_time:               0.004", "median_time: -1", "g500.median"),
    ],
)
def test_a_time_or_rate_below_zero_is_no_figure(file: str, right: str, broken: str, figure: str) -> None:
    output = named(file)
    reading, whole = output.read(output.text.replace(right, broken)), output.read()
    assert reading.metrics == whole.metrics
    assert reading.figures == tuple(each for each in whole.figures if each.key != figure) != whole.figures


def test_the_table_with_the_most_ranks_counts_and_lines_with_a_hash_do_not() -> None:
    assert shown(named("imb_pingpong.txt").read())["Sendrecv:0"] == pytest.approx(3.75e-6)
    output = named("osu5_latency.txt")
    assert output.read(output.text.replace("\n16 ", "\n# HOST 0 node1\n# POSIX_MEMALIGN ok\n16 ")) == output.read()


@every_output
def test_cut_off_at_any_byte_it_gives_the_same_figures_or_none(output: Output) -> None:
    whole = output.read()
    text = output.text
    refused = 0
    for at in range(len(text)):
        try:
            part = output.read(text[:at])
        except OutputError:
            refused += 1
        else:
            assert (part.metrics, part.wrong) == (whole.metrics, whole.wrong), f"cut at {at}"
            assert set(part.figures) <= set(whole.figures)
    assert refused > len(text) / 2


@every_output
@pytest.mark.parametrize("other", ["\n", "[n1:7] 1 more process has sent help\n"])
def test_other_text_within_a_number_gives_the_same_figures_or_none(output: Output, other: str) -> None:
    whole, text = shown(output.read()), output.text
    for found in re.finditer(r"(?<![\w.])[\d.]*\d(?:e[-+]?\d+)?", text):
        for at in range(found.start() + 1, found.end()):
            try:
                part = output.read(f"{text[:at]}{other}{text[at:]}")
            except OutputError:
                continue
            assert part.wrong or shown(part).items() <= whole.items(), text[found.start() - 40 : found.end()]


@every_output
def test_lines_of_launchers_and_libraries_anywhere_change_nothing(output: Output) -> None:
    whole, lines = output.read(), output.text.splitlines(keepends=True)
    for other in OTHERS:
        for at in range(len(lines) + 1):
            assert output.read("".join((*lines[:at], f"{other}\n", *lines[at:]))) == whole, (other, at)


@pytest.mark.parametrize(
    ("file", "keep", "missing"),
    [
        ("osu5_latency.txt", "1048576 ", "its row of 1048576 bytes is missing"),
        ("osu7_barrier.txt", "              31", "the table has no row"),
        ("imb_pingpong.txt", "\n\n# All processes", "# All processes entering MPI_Finalize"),
        ("npb33_bt_A_4.txt", " Mop/s total", "'Version =' is missing"),
        ("npb34_is_W_x.txt", " IS Benchmark", "'IS Benchmark Completed' is missing"),
        ("hpcg.txt", "Final Summary::HPCG result", "rating of=' is missing"),
        ("hpl.txt", "End of Tests", "'End of Tests.' is missing"),
        ("hpcc.txt", "End of HPC Challenge", "'End of HPC Challenge tests.' is missing"),
        ("minife.yaml", "Total Program", "'Total Program Time:' is missing"),
        ("graph500.txt", "bfs  harmonic_mean", "harmonic_mean_TEPS:' is missing"),
        ("kmi.txt", "Query throughput", "Query throughput (global #queries/s)' is missing"),
        ("iperf3_udp.json", '\t\t"cpu_util', "that ends its JSON is missing"),
        ("hnn.txt", "hnn_core 0.6.1 np", "'hnn_core VERSION np ... agg_max ...', is missing"),
    ],
)
def test_it_is_said_which_line_is_missing(file: str, keep: str, missing: str) -> None:
    output = named(file)
    with pytest.raises(OutputError, match=re.escape(missing)):
        output.read(output.text[: output.text.index(keep)])


@pytest.mark.parametrize(
    ("file", "right", "broken", "told"),
    [
        ("npb33_bt_A_4.txt", "=               SUCCESSFUL", "=             UNSUCCESSFUL", "Verification = UNSUCCESSFUL"),
        ("hpcg.txt", "HPCG result is VALID with a GFLOP/s rating of=8.5", "HPCG result is=INVALID.", "INVALID"),
        ("hpl.txt", "3.75000000e-03 ...... PASSED", "nan ...... FAILED", "residual is nan"),
        ("hpl.txt", "3.75000000e-03 ...... PASSED", "nan ...... PASSED", "residual is nan"),
        ("hpcc.txt", "MPIRandomAccess_ErrorsFraction=0", "MPIRandomAccess_ErrorsFraction=0.5", "50 % of the table"),
        ("hpcc.txt", "Success=1", "Success=0", "Success=0"),
        ("hpcc.txt", "0.00 PASSED    2.250", "0.00 FAILED    2.250", "PTRANS"),
        ("hpcc.txt", "Solution Validates", "Validation", "STREAM"),
        ("hpcc.txt", "Node(s) with error 0", "Node(s) with error 1", "Node(s) with error"),
        ("minife.yaml", "4.25e-15", "0.25", "final norm of the residual is 0.25"),
        ("minife.yaml", "4.25e-15", "-nan", "final norm of the residual is -nan"),
        ("graph500.txt", "bfs  min_validate", "Validation failed for a root\nbfs  min_validate", "Validation failed"),
        ("hnn.txt", "nspikes 2", "nspikes 3", "3 spikes, expected 2"),
        ("hnn.txt", "agg_sum -0.17337", "agg_sum -0.17338", "dipole's sum"),
    ],
)
def test_a_result_that_its_program_or_tare_calls_wrong_is_told(file: str, right: str, broken: str, told: str) -> None:
    output = named(file)
    assert right in output.text
    wrong = output.read(output.text.replace(right, broken)).wrong
    assert wrong
    assert told in " ".join(wrong)


@pytest.mark.parametrize(
    ("file", "right", "broken", "told"),
    [
        ("osu5_latency.txt", "Test v5.6.2", "Test v4.4", "version 4.4 is not supported; supported: 5, 6, 7"),
        ("imb_barrier.txt", "Benchmarks 2021.7", "Benchmarks 2077.1", "version 2077.1 is not supported"),
        ("imb_barrier.txt", "Benchmarking Barrier", "Benchmarking Bcast", "'# Benchmarking Barrier' is missing"),
        ("npb33_bt_A_4.txt", "3.3.1", "2.4", "NPB 2.4 is not supported; supported: 3.3, 3.4"),
        ("npb33_bt_A_4.txt", "BT Benchmark", "SP Benchmark", "of sp.A, not of bt.A"),
        ("npb33_bt_A_4.txt", "12.50", "25.00", "one of the two lines is wrong"),
        ("hpcg.txt", "version=3.1", "version=4.0", "HPCG 4.0 is not supported"),
        ("hpl.txt", "HPLinpack 2.3", "HPLinpack 3.0", "HPL 3.0 is not supported"),
        ("hpl.txt", "3.3408e+01", "3.3408e+00", "contradict each other"),
        ("hpcc.txt", "VersionMinor=5", "VersionMinor=9", "hpcc 1.9 is not supported"),
        ("minife.yaml", "Version: 2.0", "Version: 3.0", "miniFE 3.0 is not supported"),
        ("minife.yaml", "nx: 64", "nx: 32", "32x64x64, not 64x64x64"),
        ("graph500.txt", "SCALE:                          14", "SCALE: 15", "SCALE 15, not 14"),
        ("iperf3_tcp.json", "iperf 3.9", "iperf 2.1", "supported: iperf 3.x"),
        ("iperf3_tcp.json", '"TCP"', '"UDP"', "of UDP, not of TCP"),
        ("iperf3_tcp.json", "{\n", '{"error": "the server is busy",\n', "iperf3 reports: the server is busy"),
        ("hnn.txt", "hnn_core 0.6.1", "hnn_core 0.7.0", "hnn-core 0.7.0 is not supported"),
        ("hnn.txt", "tstop 20", "tstop 30", "not 20 and 10"),
    ],
)
def test_what_is_unknown_or_does_not_fit_is_refused_with_why(file: str, right: str, broken: str, told: str) -> None:
    output = named(file)
    assert right in output.text
    with pytest.raises(OutputError, match=re.escape(told)):
        output.read(output.text.replace(right, broken, 1))


@pytest.mark.parametrize("bad", ["nan", "-nan", "inf", "0"])
@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("osu5_latency.txt", r"(?m)^(64 +)\S+"),
        ("osu6_bw_validated.txt", r"(?m)^(64 +)\S+"),
        ("imb_barrier.txt", r"(12\.50 +)\S+"),
        ("imb_pingpong.txt", r"(?m)^( +8 +1000 +)\S+"),
        ("npb33_bt_A_4.txt", r"(Mop/s total += +)\S+"),
        ("npb34_is_W_x.txt", r"(Time in seconds = +)\S+"),
        ("hpcg.txt", r"(rating of=)\S+"),
        ("hpl.txt", r"(64 +1 +2 +0\.02 +)\S+"),
        ("hpcc.txt", r"(StarSTREAM_Triad=)\S+"),
        ("minife.yaml", r"(Total CG Mflops: )\S+"),
        ("graph500.txt", r"(harmonic_mean_TEPS: +! +)\S+"),
        ("kmi.txt", r"(#queries/s\): )\S+"),
        ("iperf3_tcp.json", r"(19975000000\.0)"),
        ("hnn.txt", r"(sim_s )\S+"),
    ],
)
def test_what_is_no_number_above_zero_never_becomes_a_metric(file: str, pattern: str, bad: str) -> None:
    output = named(file)
    json_bad = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity"}.get(bad, bad)
    made = json_bad if file.endswith(".json") else rf"\g<1>{bad}"
    text, count = re.subn(pattern, made, output.text)
    assert count
    with pytest.raises(OutputError):
        output.read(text)


def damaged(output: Output) -> st.SearchStrategy[str]:
    """Return the output with a slice of it replaced by anything."""
    text = output.text
    place = st.tuples(st.integers(0, len(text)), st.integers(0, 60))
    noise = st.text(st.characters(codec="utf-8"), max_size=20) | st.text("0123456789 .-+e=:#\n", max_size=20)
    return st.builds(lambda at, new: text[: at[0]] + new + text[at[0] + at[1] :], place, noise)


@every_output
def test_whatever_an_output_holds_it_is_read_or_refused(output: Output) -> None:
    @given(damaged(output))
    @settings(max_examples=60, deadline=None, database=None)
    def check(text: str) -> None:
        try:
            reading = output.read(text)
        except OutputError:
            return
        assert all(metric.value > 0 for metric in reading.metrics)

    check()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("text", ["", "\n", "bash: not found\n", "{}\n", "0\n1 2\n", "\x00\n"])
def test_an_output_that_is_none_is_refused(name: str, text: str) -> None:
    arguments = {"npb": ("is.S.x",), "IMB-MPI1": ("PingPong",)}.get(name, ())
    with pytest.raises(OutputError):
        PROGRAMS[name].read(text, arguments)


def test_a_program_says_how_its_figures_come_about() -> None:
    for adapter in PROGRAMS.values():
        words = (adapter.describes, adapter.measures, adapter.timer, adapter.synchronisation, adapter.reduction)
        assert all(words)
        assert adapter.versions
        assert adapter.ranks
        assert adapter.brought_by
