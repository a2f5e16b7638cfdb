"""The libraries that ranks had loaded are told where environments, or ranks of one, differ."""

from __future__ import annotations

from tare.model import RankPlace
from tare.summary.loaded import files_of, stem


def rank(number: int, *libraries: str) -> RankPlace:
    return RankPlace(rank=number, host="b/n0", hostname="n0", pid=1, cpus=(0,), libraries=libraries)


def test_a_library_is_known_by_its_name_without_the_version() -> None:
    assert stem("/usr/lib/libmpi.so.40.30.4") == "libmpi"
    assert stem("/usr/lib/libc-2.31.so") == "libc-2.31"


def test_ranks_that_agree_are_one_entry_and_others_are_told_apart() -> None:
    same = [rank(0, "/a/libmpi.so.40", "/a/libucp.so.0"), rank(1, "/a/libmpi.so.40", "/a/libucp.so.0")]
    assert files_of(same) == {"libmpi": "/a/libmpi.so.40", "libucp": "/a/libucp.so.0"}
    unlike = [*same, rank(2, "/b/libmpi.so.40")]
    assert files_of(unlike) == {
        "libmpi": "rank 0 and 1 more: /a/libmpi.so.40; rank 2: /b/libmpi.so.40",
        "libucp": "rank 0 and 1 more: /a/libucp.so.0; rank 2: not loaded",
    }
