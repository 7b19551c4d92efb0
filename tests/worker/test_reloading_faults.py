"""What ``--reload`` says of files that do not parse, however odd: a sentence, and it goes on."""

from __future__ import annotations

import os

import pytest

from jobroom.worker import reloading


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"X = (\n", "odd.py:1: "),
        (b"X = 1\n\xff\xfe", "odd.py:2: "),
        (b"X = 1\x00", "odd.py: source code string cannot contain null bytes"),
        (b"# coding: nonesuch\n", "odd.py"),
        (b"return 5\n", "odd.py:1: 'return' outside function"),
        (b"(" * 3000, "odd.py:1: "),
        (b"x = " + b"-" * 100_000 + b"1\n", "odd.py"),
        (b"x = a" + b".b" * 100_000 + b"\n", "odd.py"),
    ],
)
def test_each_file_that_does_not_parse_is_told_in_a_line(tmp_path, text, said):
    file = tmp_path / "odd.py"
    file.write_bytes(text)
    found = reloading.fault_in([file])
    assert found is not None
    assert found.startswith(said)
    assert "None" not in found
    assert "\n" not in found


def test_what_is_no_file_or_gone_is_passed_over(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    found = [*tmp_path.iterdir(), tmp_path / "gone.py"]
    assert reloading.fault_in(found) is None
