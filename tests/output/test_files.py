"""Files are whole or not there, and what cannot be written is said before long work starts."""

import errno
import os
from pathlib import Path

import pytest

from ldpbandits.errors import OutputError
from ldpbandits.output.files import check_file, check_folder, write, writing


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there stays, what was begun is removed, and the error says that the disk is full."""
    target = tmp_path / "results.csv"
    write(target, b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match="No space left on device") as caught:
        write(target, b"new")
    assert caught.value.is_full
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["results.csv"]


def test_a_file_that_is_written_in_pieces_is_there_when_it_is_whole(tmp_path: Path) -> None:
    """Not before, and not at all when something goes wrong on the way."""
    target = tmp_path / "new" / "export.csv"
    with writing(target) as file:
        file.write(b"a")
        assert not target.exists()
        file.write(b"b")
    assert target.read_bytes() == b"ab"
    with pytest.raises(ZeroDivisionError), writing(target) as file:
        file.write(b"half" * (1 // 0))
    assert target.read_bytes() == b"ab"
    assert [path.name for path in target.parent.iterdir()] == ["export.csv"]


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    """The check leaves the folder, and nothing in it; a file in the way is refused."""
    check_folder(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    write(tmp_path / "file", b"")
    with pytest.raises(OutputError, match="cannot be written"):
        check_folder(tmp_path / "file" / "folder")


def test_only_a_plain_file_is_replaced(tmp_path: Path) -> None:
    """A new file or a plain one passes; a folder, a link, a device and a folder that is not there are refused."""
    plain, link = tmp_path / "plain.html", tmp_path / "link.html"
    check_file(plain)
    write(plain, b"old")
    check_file(plain)
    link.symlink_to(plain)
    for path, reason in (
        (tmp_path, "it is a folder"),
        (link, "it is a link or a device"),
        (Path("/dev/null"), "it is a link or a device"),
        (tmp_path / "no" / "page.html", "no such folder"),
    ):
        with pytest.raises(OutputError, match=f"cannot be written: {reason}"):
            check_file(path)
