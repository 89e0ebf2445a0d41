"""Files beneath a root: no link is followed, nothing is written through one, and a name is moved whole or not at all."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnback.native import moves
from turnback.native.files import Beneath, Blocked, NotRegular, glance, look_at, only_folders, remove_folders
from turnback.native.moves import Writer


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Beneath]:
    """A folder with a file, a link to a folder elsewhere, a pipe and an empty folder; beside it that folder with a file."""
    (tmp_path / "root/folder/empty").mkdir(parents=True)
    (tmp_path / "root/folder/file").write_text("content\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("somebody's\n")
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "root/pipe")
    with Beneath(str(tmp_path / "root")) as tree:
        yield tree


@pytest.mark.parametrize(
    "path",
    [
        b"link/file",
        b"folder/file/x",
        b"missing/x",
        b"../outside/file",
        b"folder/../../outside/file",
        b"folder//file",
        b"./x",
        b"",
    ],
)
def test_no_path_leads_out_or_through_a_link(root: Beneath, path: bytes) -> None:
    """A link, a file, nothing, or ``..`` on the way: blocked, also where folders would be made."""
    makes: list[list[bytes] | None] = [None, []]
    for made in makes:
        if path == b"missing/x" and made is not None:
            continue
        with pytest.raises(Blocked), root.parent(path, made=made):
            pytest.fail("it was opened")
        assert not made
    assert root.look(path) is None
    assert root.lstat(path) is None


def test_missing_folders_are_made_and_told(root: Beneath, tmp_path: Path) -> None:
    """Each folder that was made is in the list, in order; one that was there isn't."""
    made: list[bytes] = []
    with root.parent(b"folder/a/b/new", made=made) as (folder, name):
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    assert made == [b"folder/a", b"folder/a/b"]
    assert (tmp_path / "root/folder/a/b/new").exists()


def test_a_look_tells_content_and_kind(root: Beneath, tmp_path: Path) -> None:
    """The digest and git's id of a file and of a link's target; a folder and a pipe have none, and the pipe isn't opened."""
    look = root.look(b"folder/file")
    assert look is not None
    assert (look.kind, look.size, look.blob) == ("file", 8, "d95f3ad14dee633a758d2e331151e950dd13e4ed")
    link = root.look(b"link")
    assert link is not None
    assert (link.kind, link.size) == ("link", len(str(tmp_path / "outside")))
    for name in (b"pipe", b"folder"):
        with pytest.raises(NotRegular):
            look_at(root.fd, name)
        seen = glance(root.fd, name)
        assert seen is not None
        assert seen.kind == "other"
    assert glance(root.fd, b"nothing") is None


def test_the_same_thing_is_the_same_inode_with_the_same_content(root: Beneath, tmp_path: Path) -> None:
    """A copy has the same content and is another thing; so has a file that was written since."""
    place = tmp_path / "root/folder/file"
    before = root.look(b"folder/file")
    assert before is not None
    again = root.look(b"folder/file")
    assert again is not None
    assert again.same_thing(before)
    copy = place.with_name("copy")
    copy.write_text("content\n")
    other = root.look(b"folder/copy")
    assert other is not None
    assert other.same_content(before)
    assert not other.same_thing(before)
    place.write_text("CONTENT\n")
    now = root.look(b"folder/file")
    assert now is not None
    assert not now.same_content(before)


def test_only_folders_without_files_count_as_empty(root: Beneath, tmp_path: Path) -> None:
    """At any depth; a file inside, a link, and a file itself don't."""
    (tmp_path / "root/nest/a/b").mkdir(parents=True)
    assert only_folders(root.fd, b"nest")
    assert not only_folders(root.fd, b"folder")
    assert not only_folders(root.fd, b"link")
    assert not only_folders(root.fd, b"nothing")
    remove_folders(root.fd, b"nest")
    assert not (tmp_path / "root/nest").exists()
    with pytest.raises(OSError, match="ot a directory"):
        remove_folders(root.fd, b"folder")
    assert (tmp_path / "root/folder/file").exists()


# --- moves -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("supported", [True, False], ids=["one rename", "a link and an unlink"])
def test_a_name_is_given_only_when_it_is_free(
    root: Beneath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supported: bool
) -> None:
    """Files, links and folders; where the kernel has no such rename the result is the same."""
    if not supported:
        monkeypatch.setattr(moves, "rename_new", lambda *_: -errno.EINVAL)
    (tmp_path / "root/one").write_text("1")
    (tmp_path / "root/two").write_text("2")
    with pytest.raises(FileExistsError):
        moves.give_name(root.fd, b"one", root.fd, b"two")
    assert (tmp_path / "root/two").read_text() == "2"
    moves.give_name(root.fd, b"one", root.fd, b"free")
    assert (tmp_path / "root/free").read_text() == "1"
    assert not (tmp_path / "root/one").exists()
    moves.give_name(root.fd, b"link", root.fd, b"link2")
    assert (tmp_path / "root/link2").is_symlink()
    moves.give_name(root.fd, b"folder", root.fd, b"folder2")
    assert (tmp_path / "root/folder2/file").exists()
    with pytest.raises(FileExistsError):
        moves.give_name(root.fd, b"folder2", root.fd, b"free")


def test_an_exchange_swaps_whatever_the_names_stand_for(root: Beneath, tmp_path: Path) -> None:
    """A file and a folder change places; a name that isn't there is an error and no create."""
    (tmp_path / "root/one").write_text("1")
    try:
        done = moves.exchange(root.fd, b"one", root.fd, b"folder")
    except OSError as error:
        pytest.skip(f"this filesystem has no exchange: {error}")
    assert done
    assert (tmp_path / "root/folder").read_text() == "1"
    assert (tmp_path / "root/one/file").exists()
    with pytest.raises(FileNotFoundError):
        moves.exchange(root.fd, b"one", root.fd, b"nothing")
    assert (tmp_path / "root/one/file").exists()


def test_writers_are_seen(root: Beneath, tmp_path: Path) -> None:
    """Nobody, a reader, a writer: only the last one counts, and where there are no leases nobody can say."""
    place = tmp_path / "root/folder/file"

    def asked() -> Writer:
        with root.parent(b"folder/file") as (folder, name), moves.writers(folder, name) as found:
            return found

    if asked() is Writer.UNKNOWN:
        pytest.skip("this system has no leases")
    assert asked() is Writer.NONE
    with open(place):
        assert asked() is Writer.NONE
    with open(place, "a"):
        assert asked() is Writer.SOME
    assert asked() is Writer.NONE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moves, "_SET_LEASE", None)
        assert asked() is Writer.UNKNOWN
