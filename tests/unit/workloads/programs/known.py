"""Outputs of programs of others, written by hand in their formats, and what each must be read as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.workloads.programs import PROGRAMS, ProgramAdapter, Reading

FOLDER: Final = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Output:
    """One output: its file, program, arguments; some of its metrics by key, rates per second and costs in seconds."""

    file: str
    program: str
    arguments: tuple[str, ...]
    ranks: int
    metrics: int
    values: Mapping[str, float]

    @property
    def text(self) -> str:
        return (FOLDER / self.file).read_text()

    @property
    def adapter(self) -> ProgramAdapter:
        return PROGRAMS[self.program]

    def read(self, text: str | None = None) -> Reading:
        return self.adapter.read(self.text if text is None else text, self.arguments)


def shown(reading: Reading) -> dict[str, float]:
    """Return metrics as a user reads them: rates per second, costs in seconds."""
    return {m.key: m.done_per_sample / m.value if m.done_per_sample else m.value for m in reading.metrics}


OUTPUTS: Final = (
    Output("osu5_latency.txt", "osu_latency", (), 2, 23, {"osu_latency:1": 3.1e-6, "osu_latency:4194304": 469.13e-6}),
    Output("osu7_latency.txt", "osu_latency", ("-m", "8:512"), 2, 7, {"osu_latency:512": 0.25e-6}),
    Output("osu7_alltoall_full.txt", "osu_alltoall", ("-m", "1:64", "-f"), 2, 7, {"osu_alltoall:64": 5.64e-6}),
    Output("osu6_bw_validated.txt", "osu_bw", ("-m", "128", "-c"), 2, 8, {"osu_bw:1": 20.5e6, "osu_bw:8": 133.21e6}),
    Output("osu5_allreduce.txt", "osu_allreduce", ("-m", "256"), 4, 7, {"osu_allreduce:4": 7.51e-6}),
    Output("osu7_barrier.txt", "osu_barrier", (), 4, 1, {"osu_barrier": 31.25e-6}),
    Output("osu5_iallreduce.txt", "osu_iallreduce", ("-m", "4:32"), 4, 4, {"osu_iallreduce:8": 8.75e-6}),
    Output("osu5_ibarrier.txt", "osu_ibarrier", (), 4, 1, {"osu_ibarrier": 8.75e-6}),
    Output("osu6_mbw_mr.txt", "osu_mbw_mr", ("-m", "8"), 4, 4, {"osu_mbw_mr:8": 62.5e6}),
    Output("osu7_cas_latency.txt", "osu_cas_latency", (), 2, 1, {"osu_cas_latency:8": 1.75e-6}),
    Output("osu5_latency_mt.txt", "osu_latency_mt", ("-m", ":8"), 2, 4, {"osu_latency_mt:8": 3.15e-6}),
    Output(
        "imb_pingpong.txt", "IMB-MPI1", ("-msglog", "0:3", "PingPong", "Sendrecv"), 4, 10,
        {"PingPong:8": 4.5e-6, "Sendrecv:8": 5.75e-6},
    ),
    Output("imb_barrier.txt", "IMB-MPI1", ("-npmin", "4", "Barrier"), 4, 1, {"Barrier": 12.75e-6}),
    Output(
        "imb_groups.txt", "IMB-MPI1", ("-multi", "1", "-msglog", "3:4", "PingPong"), 4, 3,
        {"PingPong:8": 2.75e-6, "PingPong:16": 3e-6},
    ),
    Output(
        "imb_rma.txt", "IMB-EXT", ("-msglog", "0:3", "Unidir_Put"), 2, 10,
        {"Unidir_Put aggregate:8": 1.5e-6, "Unidir_Put non-aggregate:8": 7.5e-6},
    ),
    Output("imb_nbc.txt", "IMB-NBC", ("-msglog", "0:3", "Ibcast"), 2, 5, {"Ibcast:0": 9.25e-6}),
    Output("npb33_bt_A_4.txt", "npb", ("bt.A.4",), 4, 1, {"bt.A": 13462.76e6}),
    Output("npb34_is_W_x.txt", "npb", ("is.W.x",), 2, 1, {"is.W": 655.36e6}),
    Output("hpcg.txt", "hpcg", (), 2, 1, {"hpcg": 8.5e9}),
    Output("hpl.txt", "hpl", ("n=1000", "nb=64,128"), 2, 2, {"hpl:64": 3.3408e10, "hpl:128": 6.6817e10}),
    Output(
        "hpcc.txt", "hpcc", ("n=1000", "nb=80"), 2, 4,
        {"hpl:80": 3.341e10, "stream": 18.25e9, "dgemm": 52.5e9, "randomaccess": 1.75e6},
    ),
    Output("minife.yaml", "minife", (), 2, 1, {"minife": 8167.2e6}),
    Output("graph500.txt", "graph500", ("scale=14",), 2, 1, {"bfs": 6.5e7}),
    Output("kmi.txt", "kmi", (), 2, 1, {"kmi": 65536.5}),
    Output("iperf3_tcp.json", "iperf3", ("-t", "5"), 2, 1, {"tcp": 19.975e9}),
    Output("iperf3_udp.json", "iperf3", ("-u", "-b", "0"), 2, 1, {"udp": 2.94e9}),
    Output("stream.txt", "stream", (), 2, 4, {"stream:copy": 16e9, "stream:triad": 15.36e9}),
    Output("lammps.txt", "lammps", ("-in", "/data/in.lj"), 2, 1, {"lammps": 1.25}),
    Output("gromacs.txt", "gromacs", ("-s", "/data/bench.tpr"), 2, 1, {"gromacs": 102.4}),
    Output("hnn.txt", "hnn", ("tstop=20",), 2, 1, {"hnn:20:10": 4.125}),
)  # fmt: skip
