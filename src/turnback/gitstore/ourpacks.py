"""Which packs are ours, and what a killed process may have left in the object folder.

Git has no place for such a note beside a pack (it calls an unknown file there garbage), so there is a folder of empty files in the git
folder, one for each pack of ours, named by the pack's checksum. The note is made before the pack has its name and goes after the pack has gone,
so that a pack without an index can be told for ours. Who makes a pack holds a lock on its note until pack and index are in place.

What a kill can leave: temporary files, which nobody was promised anything of, and a pack without its index. The first are removed, the
second is never: it may be whole and the only copy, so its index is made anew, by git. A note whose pack somebody's ``git gc`` has
removed is forgotten. Nothing that a living process holds is touched.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from turnback.errors import TurnbackError
from turnback.gitstore import process
from turnback.gitstore.newfile import NewFile, lock, unheld
from turnback.gitstore.objectfolder import ObjectFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnback.gitstore.repo import Repository

PACK_PREFIX = "tmp_pack_turnback_"
LOOSE_PREFIX = "tmp_obj_turnback_"
_CHECKSUM = re.compile(r"[0-9a-f]{40}")


def recorded(folder: ObjectFolder) -> list[str]:
    """The checksums of the packs that are noted as ours, sorted; some of them may be gone."""
    return sorted(name for name in _names(folder.records) if _CHECKSUM.fullmatch(name))


def pack_path(folder: ObjectFolder, checksum: str) -> str:
    """The pack of that checksum; its index ends in ``.idx`` instead of ``.pack``."""
    return os.path.join(folder.packs, f"pack-{checksum}.pack")


def index_path(folder: ObjectFolder, checksum: str) -> str:
    """The index of the pack of that checksum."""
    return os.path.join(folder.packs, f"pack-{checksum}.idx")


@contextlib.contextmanager
def noting(folder: ObjectFolder, checksum: str) -> Iterator[None]:
    """Note a pack as ours before it gets its name, and hold the note for the body, where it does."""
    path = os.path.join(folder.records, checksum)
    while True:
        try:
            note = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o444)
        except FileNotFoundError:
            folder.make(folder.records)
            continue
        lock(note)
        if os.fstat(note).st_nlink:
            break
        os.close(note)  # it was forgotten between the two calls: its pack was not there yet
    try:
        folder.sharing.adjust(note)
        yield
    finally:
        os.close(note)


def forget(folder: ObjectFolder, checksum: str) -> bool:
    """Drop the note of a pack that is gone; False when the pack is there, or is just being made."""
    path = os.path.join(folder.records, checksum)
    with unheld(path) as note:
        if note is None or os.path.lexists(pack_path(folder, checksum)):
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return True


def leftovers(repository: Repository) -> list[str]:
    """What killed processes left in the object folder, sorted: temporary files, and packs of ours without an index.

    What a living process holds isn't listed.
    """
    folder = ObjectFolder.of(repository)
    suspects = _suspects(folder, recorded(folder), set(_names(folder.packs)))
    return sorted(path for path in suspects if _is_left(path))


def clear_leftovers(repository: Repository) -> list[str]:
    """Remove the temporary files that killed processes left, and give packs of ours that lack it their index.

    What can't be mended (a damaged pack, no git on the PATH) stays and is listed again by ``leftovers``. Notes of packs that are gone are
    forgotten. When there is nothing to do, this costs three listings.

    Returns:
        What was removed or mended, sorted.
    """
    folder = ObjectFolder.of(repository)
    noted = recorded(folder)  # before the packs are listed: a note is older than its pack
    names = set(_names(folder.packs))
    for checksum in noted:
        if f"pack-{checksum}.pack" not in names:
            forget(folder, checksum)
    cleared = []
    for path in sorted(_suspects(folder, noted, names)):
        with contextlib.suppress(OSError, TurnbackError), unheld(path) as held:
            if held is None:
                continue
            if not path.endswith(".pack"):
                os.unlink(path)
                cleared.append(path)
            elif not os.path.lexists(_index_of(path)):
                _make_index(folder, path)
                cleared.append(path)
    return cleared


def _suspects(folder: ObjectFolder, noted: list[str], names: set[str]) -> Iterator[str]:
    for name in names:
        if name.startswith(PACK_PREFIX):
            yield os.path.join(folder.packs, name)
    for name in _names(folder.objects):
        if name.startswith(LOOSE_PREFIX):
            yield os.path.join(folder.objects, name)
    for checksum in noted:
        if f"pack-{checksum}.pack" in names and f"pack-{checksum}.idx" not in names:
            yield pack_path(folder, checksum)


def _is_left(path: str) -> bool:
    try:
        with unheld(path) as held:
            # Looked at again under the lock: its maker may have finished between the listing and now.
            return held is not None and not (path.endswith(".pack") and os.path.lexists(_index_of(path)))
    except OSError:
        return False


def _make_index(folder: ObjectFolder, pack: str) -> None:
    """git writes an index under the name that it is given bit by bit, so it gets a name that means nothing."""
    temporary = os.path.join(folder.packs, f"{PACK_PREFIX}index_{os.getpid()}")
    try:
        process.run(folder.tree, ["index-pack", "-o", temporary, pack])
        with open(temporary, "rb") as made, NewFile(folder.packs, PACK_PREFIX, folder.sharing) as index:
            index.write(made.read())
            index.publish(_index_of(pack))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _index_of(pack: str) -> str:
    return pack.removesuffix(".pack") + ".idx"


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
