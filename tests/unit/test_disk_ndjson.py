"""A file of lines: appended in one write, read in whole lines, its torn tail kept."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from turnback.disk import ndjson
from turnback.disk.ndjson import LineFile
from turnback.errors import Failed


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "log.ndjson")


@pytest.fixture
def file(path: str) -> LineFile:
    return LineFile(path)


def failing_write(after: int, error: int) -> Callable[[int, bytes], int]:
    """An ``os.write`` that takes so many bytes, and then says this error."""
    real = os.write
    left = [after]

    def write(descriptor: int, data: bytes) -> int:
        part = bytes(data)[: left[0]]
        if not part:
            raise OSError(error, os.strerror(error))
        left[0] -= len(part)
        return real(descriptor, part)

    return write


# --- appending -----------------------------------------------------------------------------------------------------


def test_a_group_is_one_write(file: LineFile, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many lines a group has, the system is asked to write once, so that no reader sees a part."""
    real = os.write
    writes: list[bytes] = []

    def write(descriptor: int, data: bytes) -> int:
        writes.append(data)
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    assert file.append([b"one\n", b"two\n"]) == 8
    assert file.append([b"three\n"], at=8) == 14
    assert writes == [b"one\ntwo\n", b"three\n"]
    assert Path(path).read_bytes() == b"one\ntwo\nthree\n"
    assert os.stat(path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("written", [1, 4, 6])
def test_a_write_that_stops_in_the_middle_is_taken_back(
    file: LineFile, path: str, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """When the disk is full after a part of a group, the file is as it was and the error says what to do."""
    file.append([b"one\n"])
    monkeypatch.setattr(os, "write", failing_write(written, errno.ENOSPC))
    with pytest.raises(Failed, match="free some space") as caught:
        file.append([b"two\n", b"three\n"])
    assert caught.value.code == "failed.state_folder"
    assert Path(path).read_bytes() == b"one\n"


def test_a_sync_that_fails_takes_the_group_back(
    file: LineFile, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that was to be durable and could not be synced is not in the file."""

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file.append([b"one\n"])
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Failed, match="Input/output error"):
        file.append([b"two\n"], durable=True)
    assert Path(path).read_bytes() == b"one\n"


def test_durable_syncs_the_file_and_its_name_once(file: LineFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first durable group syncs the file and its folder, also when others were written before; later ones sync the file."""
    real = os.fsync
    synced: list[bool] = []

    def fsync(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    file.append([b"one\n"])
    assert synced == []
    file.append([b"two\n"], durable=True)
    assert synced == [False, True]
    file.append([b"three\n"], durable=True)
    file.sync()
    assert synced == [False, True, False, False]


def test_a_writer_without_the_lock_is_noticed(file: LineFile, path: str) -> None:
    """Bytes that somebody put behind the expected end stop the append, and stay."""
    file.append([b"one\n"])
    with Path(path).open("ab") as other:
        other.write(b"else\n")
    with pytest.raises(Failed, match="does not hold its lock"):
        file.append([b"two\n"], at=4)
    assert Path(path).read_bytes() == b"one\nelse\n"


def test_a_group_has_a_greatest_length(file: LineFile, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that no reader would look for is not written."""
    monkeypatch.setattr(ndjson, "LONGEST", 10)
    with pytest.raises(Failed, match="too many"):
        file.append([b"0123456789\n"])
    assert not os.path.exists(path)


# --- reading -------------------------------------------------------------------------------------------------------


def test_reading_gives_whole_lines(file: LineFile, path: str) -> None:
    """What is read ends with a line's end, and the next offset goes on there; a torn tail is not a line."""
    Path(path).write_bytes(b"one\ntwo\nthr")
    file.look()
    assert file.read_from(0) == (b"one\ntwo\n", 8)
    assert file.read_from(4) == (b"two\n", 8)
    assert file.read_from(8) == (b"", 8)
    assert file.read_from(100) == (b"", 100)


def test_reading_is_bounded(file: LineFile, path: str) -> None:
    """A limit bounds what one read brings, and every line comes in the end."""
    lines = [b"%d" % number * 7 for number in range(50)]
    Path(path).write_bytes(b"\n".join(lines) + b"\n")
    file.look()
    at, found = 0, b""
    while True:
        part, behind = file.read_from(at, 32)
        if not part:
            break
        assert len(part) <= 32
        found += part
        at = behind
    assert found.split() == lines


def test_nothing_is_read_before_a_look(file: LineFile, path: str) -> None:
    """Without a file there is nothing to read and nothing to sync."""
    assert file.look().size == 0
    assert file.read_from(0) == (b"", 0)
    assert list(file.lines_from(0)) == []
    assert file.torn() == []
    file.sync()
    assert not os.path.exists(path)


def test_short_reads_are_continued(file: LineFile, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that gives three bytes at a time gives all of them in the end."""
    Path(path).write_bytes(b"one\ntwo\n")
    file.look()
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, count, at: real(descriptor, min(count, 3), at))
    assert file.read_from(0) == (b"one\ntwo\n", 8)


def test_lines_come_with_their_places(file: LineFile, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are longer than a piece are put together, empty ones are lines, and one that is too long comes empty."""
    monkeypatch.setattr(ndjson, "CHUNK", 4)
    monkeypatch.setattr(ndjson, "LONGEST", 12)
    Path(path).write_bytes(b"0123456789\n\nab\n" + b"x" * 13 + b"\ncd\ntail")
    file.look()
    assert list(file.lines_from(0)) == [(0, b"0123456789"), (11, b""), (12, b"ab"), (15, b""), (29, b"cd")]
    assert next(iter(file.lines_from(12))) == (12, b"ab")


def test_a_look_tells_one_file_from_another(file: LineFile, path: str, tmp_path: Path) -> None:
    """Growing keeps the generation; another file in the same place, or none, is another generation, even of the same size."""
    file.append([b"one\n"])
    first = file.look()
    file.append([b"two\n"])
    assert file.look()[:2] == (first.generation, 8)
    (tmp_path / "other").write_bytes(b"x" * 8)
    os.replace(tmp_path / "other", path)
    second = file.look()
    assert second.size == 8
    assert second.generation > first.generation
    assert file.read_from(0, 8) == (b"", 0)
    os.unlink(path)
    third = file.look()
    assert third.size == 0
    assert third.generation > second.generation
    file.close()
    file.close()


def test_a_file_that_goes_between_two_looks_at_it_is_no_file(
    file: LineFile, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is there for stat and gone for open is gone."""
    Path(path).write_bytes(b"one\n")
    real = os.open

    def gone(name: str, *more: int) -> int:
        os.unlink(path)
        return real(name, *more)

    monkeypatch.setattr(os, "open", gone)
    assert file.look().size == 0


def test_a_file_that_cannot_be_looked_at_is_said(tmp_path: Path) -> None:
    """A path below a file is said to be in the way, not taken for an empty log."""
    (tmp_path / "state").write_text("mine")
    with pytest.raises(Failed, match="can't be looked at"):
        LineFile(str(tmp_path / "state" / "log.ndjson")).look()


def test_a_read_that_fails_is_said(file: LineFile, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that breaks while the log is read is a failure and not the end of the log."""
    Path(path).write_bytes(b"one\n")
    file.look()

    def fail(*args: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(Failed, match=r"reading .* failed: Input/output error"):
        file.read_from(0)


def test_letting_the_object_go_closes_the_file(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file object that is forgotten keeps no descriptor."""
    Path(path).write_bytes(b"one\n")
    opened: list[int] = []
    real = os.open

    def remember(name: str, *more: int) -> int:
        opened.append(real(name, *more))
        return opened[-1]

    monkeypatch.setattr(os, "open", remember)
    file = LineFile(path)
    file.look()
    os.fstat(opened[0])
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


# --- the torn tail -------------------------------------------------------------------------------------------------


def test_a_tail_is_set_aside_and_not_lost(file: LineFile, path: str) -> None:
    """The tail moves to a file of its own, byte for byte, and the next group follows the last whole line."""
    Path(path).write_bytes(b"one\ntw\x00o")
    aside = file.set_aside(4)
    assert aside == f"{path}.torn-1"
    assert Path(aside).read_bytes() == b"tw\x00o"
    assert os.stat(aside).st_mode & 0o777 == 0o600
    file.append([b"three\n"], at=4)
    assert Path(path).read_bytes() == b"one\nthree\n"


def test_tails_are_numbered_and_listed(file: LineFile, path: str, tmp_path: Path) -> None:
    """Each tail gets the next free number; the list is in order and takes no other file for a tail."""
    for number in range(1, 12):
        Path(path).write_bytes(b"one\nx" + b"%d" % number)
        assert file.set_aside(4) == f"{path}.torn-{number}"
    (tmp_path / "log.ndjson.torn-x").write_text("")
    (tmp_path / "log.ndjson.torn-").write_text("")
    assert file.torn() == [f"{path}.torn-{number}" for number in range(1, 12)]
    assert Path(file.torn()[-1]).read_bytes() == b"x11"


def test_without_a_tail_nothing_moves(file: LineFile, path: str) -> None:
    """A file that ends where it should, and no file, have nothing to set aside."""
    assert file.set_aside(0) is None
    Path(path).write_bytes(b"one\n")
    assert file.set_aside(4) is None
    assert file.torn() == []


def test_a_tail_is_cut_only_after_its_copy_is_safe(
    file: LineFile, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the copy can't be written or synced the tail stays where it is, and no half copy stays."""
    Path(path).write_bytes(b"one\ntail")

    def fail(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for step in ("write", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fail)
            with pytest.raises(Failed, match="setting a torn tail aside"):
                file.set_aside(4)
        assert Path(path).read_bytes() == b"one\ntail"
        assert file.torn() == []


def test_a_kill_between_copy_and_cut_only_doubles_the_tail(
    file: LineFile, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that dies between copying and cutting leaves the tail in both places; the next one starts over."""
    Path(path).write_bytes(b"one\ntail")

    def killed(*args: int) -> None:
        raise OSError(errno.EIO, "killed here")

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", killed)
        with pytest.raises(Failed):
            file.set_aside(4)
    assert Path(path).read_bytes() == b"one\ntail"
    assert file.set_aside(4) == f"{path}.torn-2"
    assert [Path(torn).read_bytes() for torn in file.torn()] == [b"tail", b"tail"]
