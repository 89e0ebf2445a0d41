"""Scratch folders: empty, private, used again, and cleared away when their process was killed."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from support.children import Child
from turnback.disk.scratch import ScratchFolders, sweep

if TYPE_CHECKING:
    from pathlib import Path

LEAVE = """
from turnback.disk.scratch import ScratchFolders
with ScratchFolders(sys.argv[1]).take() as folder:
    open(os.path.join(folder, "secret"), "w").close()
    say(folder)
    hear()
"""


def test_a_folder_is_empty_private_and_used_again(tmp_path: Path) -> None:
    """What was put into one is gone for the next user, and no second folder is made."""
    folders = ScratchFolders(str(tmp_path / "scratch"))
    with folders.take() as first:
        assert stat.S_IMODE(os.stat(first).st_mode) == 0o700
        os.makedirs(os.path.join(first, "a", "b"))
        (tmp_path / "scratch" / os.path.basename(first) / "file").touch()
    with folders.take() as second:
        assert (second, os.listdir(second)) == (first, [])
        with folders.take() as third:
            assert third != second


def test_nothing_is_left_when_the_last_user_goes(tmp_path: Path) -> None:
    """The folders go with the object."""
    folders = ScratchFolders(str(tmp_path))
    with folders.take():
        pass
    del folders
    assert os.listdir(tmp_path) == []


def test_a_folder_that_somebody_removed_is_made_anew(tmp_path: Path) -> None:
    """A tidied state folder is no error."""
    folders = ScratchFolders(str(tmp_path))
    with folders.take() as first:
        pass
    os.rmdir(first)
    with folders.take() as second:
        assert os.path.isdir(second)


def test_a_killed_process_leaves_nothing_behind_for_long(tmp_path: Path) -> None:
    """A folder in use stays while its process lives; after a kill the next process clears it away."""
    with Child(LEAVE, str(tmp_path)) as child:
        left = child.hear()
        assert sweep(str(tmp_path)) == []
        assert os.listdir(left) == ["secret"]
        child.kill()
        with ScratchFolders(str(tmp_path)).take() as mine:
            assert not os.path.exists(left)
            assert os.path.exists(mine)
