"""The table of mends and its patches belong together."""

from __future__ import annotations

import re

from mends.check import HERE, ROOT, table


def test_the_table_has_sixty_mends_ten_of_them_c_and_fifty_caught_by_make_test() -> None:
    mends = table()
    assert len(mends) == len({mend.name for mend in mends}) == 60
    assert sum(mend.language == "C" for mend in mends) >= 10
    assert sum(mend.target == "make test" for mend in mends) >= 50


def test_each_mend_has_a_patch_of_source_files_and_each_patch_a_mend() -> None:
    patches = {path.stem: path.read_text() for path in HERE.glob("*.patch")}
    assert patches.keys() == {mend.name for mend in table()}
    for text in patches.values():
        names = re.findall(r"(?m)^\+\+\+ b/(\S+)", text)
        assert names, text
        assert all(re.match(r"(src|kernels|miniapps|tools)/", name) and (ROOT / name).is_file() for name in names)


def test_the_folders_and_files_of_mends_exist() -> None:
    assert not [mend.name for mend in table() if not (ROOT / mend.folder).is_dir() or not (ROOT / mend.first).is_file()]
