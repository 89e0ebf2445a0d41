"""The state folder: private from the first moment, and files that are whole or not there."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnback.disk import private
from turnback.errors import Failed


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """A umask that lets everybody do everything, so that only our own care keeps a file private."""
    before = os.umask(0)
    yield
    os.umask(before)


def bits(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


# --- folders -------------------------------------------------------------------------------------------------------


def test_a_new_folder_and_those_above_it_are_private(tmp_path: Path) -> None:
    """Every folder that is made on the way is 0700, and the ones that were there are left as they are."""
    tmp_path.chmod(0o755)
    deep = tmp_path / "state" / "turnback" / "app"
    made_in = private.make_folder(str(deep))
    assert [bits(deep), bits(deep.parent), bits(deep.parent.parent)] == [0o700] * 3
    assert bits(tmp_path) == 0o755
    assert set(made_in) == {str(tmp_path), str(tmp_path / "state"), str(tmp_path / "state" / "turnback")}


def test_a_folder_that_is_there_is_checked_and_kept(tmp_path: Path) -> None:
    """Making a folder twice is making it once; one that others may read stays readable."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    assert private.make_folder(str(folder)) == []
    assert bits(folder) == 0o755


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o720])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    """A state folder in which somebody else could put files is refused, with the command that mends it."""
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(Failed, match="chmod go-w") as caught:
        private.make_folder(str(folder))
    assert caught.value.code == "failed.state_folder"
    assert caught.value.data == {"path": str(folder)}


def test_another_users_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder that belongs to another user is refused."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Failed, match="belongs to another user; choose another with --state-dir"):
        private.check_folder(str(tmp_path))


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    """A state folder that is a file is refused by name, and so is one below a file."""
    (tmp_path / "state").write_text("mine")
    with pytest.raises(Failed, match=r"is no folder|failed: File exists"):
        private.make_folder(str(tmp_path / "state"))
    with pytest.raises(Failed, match="Not a directory"):
        private.make_folder(str(tmp_path / "state" / "deeper"))
    with pytest.raises(Failed, match="can't be looked at: Not a directory"):
        private.check_folder(str(tmp_path / "state" / "deeper"))
    assert (tmp_path / "state").read_text() == "mine"


def test_no_folder_is_the_callers_case(tmp_path: Path) -> None:
    """Checking a folder that is not there is no failure of the folder: the caller decides."""
    with pytest.raises(FileNotFoundError):
        private.check_folder(str(tmp_path / "none"))


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk while making the folder says what to do."""

    def full(path: str, mode: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(Failed, match="free some space"):
        private.make_folder(str(tmp_path / "state"))


def test_two_makers_of_one_folder_both_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that another process makes in between is as good as ours."""
    real = os.mkdir

    def beaten(path: str, mode: int) -> None:
        real(path, mode)
        raise FileExistsError

    monkeypatch.setattr(os, "mkdir", beaten)
    private.make_folder(str(tmp_path / "state"))


# --- files ---------------------------------------------------------------------------------------------------------


def test_a_file_is_private_before_it_has_content(tmp_path: Path) -> None:
    """A file is 0600 from the moment it exists, and children that are started do not get it."""
    descriptor = private.open_file(str(tmp_path / "log"), os.O_WRONLY | os.O_CREAT)
    assert bits(tmp_path / "log") == 0o600
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


@pytest.mark.parametrize("kind", ["link", "folder", "fifo", "open to others", "another user's"])
def test_what_is_not_our_own_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A link, a folder, a fifo, a file that others may write and another user's file are refused; none of them hangs."""
    path = tmp_path / "log"
    if kind == "link":
        (tmp_path / "elsewhere").write_text("x")
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    else:
        path.write_text("x")
        path.chmod(0o666 if kind == "open to others" else 0o600)
    if kind == "another user's":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Failed) as caught:
        private.open_file(str(path), os.O_RDONLY)
    assert caught.value.code == "failed.state_folder"
    assert str(path) in caught.value.message


def test_a_missing_file_is_the_callers_case(tmp_path: Path) -> None:
    """Opening a file that is not there raises what says so."""
    with pytest.raises(FileNotFoundError):
        private.open_file(str(tmp_path / "none"), os.O_RDONLY)


def test_the_data_of_an_error_is_always_json(tmp_path: Path) -> None:
    """A folder whose name isn't UTF-8 can be told in an error."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/gr\xe9")
    os.mkdir(folder, 0o777)
    with pytest.raises(Failed) as caught:
        private.make_folder(folder)
    assert caught.value.data["path"].endswith("/gr\ufffd")
    caught.value.to_json()


# --- replacing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_whole(tmp_path: Path, durable: bool) -> None:
    """A replaced file has the new bytes, is private, and nothing else stays in the folder."""
    path = tmp_path / "snapshot"
    path.write_bytes(b"old")
    private.write_atomically(str(path), b"new" * 100_000, durable)
    assert path.read_bytes() == b"new" * 100_000
    assert bits(path) == 0o600
    assert os.listdir(tmp_path) == ["snapshot"]


@pytest.mark.parametrize("step", ["write", "fsync", "rename"])
def test_a_replacement_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whatever step fails, the old bytes stay and no temporary file does."""
    path = tmp_path / "snapshot"
    path.write_bytes(b"old")

    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(Failed, match="free some space"):
        private.write_atomically(str(path), b"new", durable=True)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["snapshot"]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that takes three bytes at a time still gets all of them."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:3]))
    private.write_atomically(str(tmp_path / "snapshot"), b"0123456789")
    assert (tmp_path / "snapshot").read_bytes() == b"0123456789"


def test_only_old_leftovers_of_the_same_file_go(tmp_path: Path) -> None:
    """What a killed process left of this very file goes after an hour; a fresh one may be in use, and others are not ours."""
    names = [
        ".turnback-tmp-snapshot-1-1",
        ".turnback-tmp-snapshot-2-1",
        ".turnback-tmp-other-1-1",
        "snapshot",
    ]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (0, 0))
    os.utime(tmp_path / names[1])
    private.remove_leftovers(str(tmp_path / "snapshot"))
    assert sorted(os.listdir(tmp_path)) == sorted(names[1:])


# --- syncing -------------------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_synced_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filesystem that has no sync for folders says EINVAL: it has nothing to sync. Any other answer is a failure."""

    def answer(number: int) -> None:
        def fsync(descriptor: int) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fsync)

    answer(errno.EINVAL)
    private.sync_folder(str(tmp_path))
    answer(errno.EIO)
    with pytest.raises(Failed, match="syncing"):
        private.sync_folder(str(tmp_path))


def test_the_drives_own_cache_is_flushed_where_that_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is a full sync it is used instead of fsync; where the filesystem refuses it fsync is used."""
    asked: list[str] = []

    def full(descriptor: int, command: int) -> int:
        asked.append("full")
        if len(asked) > 1:
            raise OSError(errno.ENOTSUP, "no")
        return 0

    monkeypatch.setattr(private, "_FULL_SYNC", 51)
    monkeypatch.setattr("turnback.disk.private.fcntl.fcntl", full)
    monkeypatch.setattr(os, "fsync", lambda descriptor: asked.append("fsync"))
    with (tmp_path / "file").open("wb") as file:
        private.sync_file(file.fileno())
        assert asked == ["full"]
        private.sync_file(file.fileno())
    assert asked == ["full", "full", "fsync"]
