"""What a rollback does to files: every kind into every other, nothing that isn't in the plan, and no byte that isn't T's."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from support.rollbacks import Scene, folders_of, paths, reasons, steps

KINDS = ("file", "other", "exec", "link", "link_to_folder", "folder", "absent")


# --- both ways, by the table of what is captured ---------------------------------------------------------------------


@pytest.mark.contract("V-100", "V-101")
def test_a_tracked_file_comes_back_with_its_working_content(tmp_path: Path) -> None:
    """Staged v2, working v3 at the checkpoint: v3 comes back, and not what was staged."""
    scene = Scene.in_place(tmp_path)
    scene.put({"README.md": "v2\n"})
    scene.tree.git("add", "README.md")
    scene.put({"README.md": "v3\n"})
    scene.changes({"README.md": "v4\n"})
    scene.back("k1")
    assert scene.tree.read("README.md") == b"v3\n"


@pytest.mark.contract("V-102", "V-103", "V-105")
def test_untracked_files_come_back_and_new_ones_go(tmp_path: Path) -> None:
    """Of three untracked files one was changed, one deleted and one made since: all three are as they were."""
    scene = Scene.in_place(tmp_path)
    scene.put({"notes/kept.txt": "then\n", "notes/gone.txt": "then\n"})
    scene.changes({"notes/kept.txt": "now\n", "notes/gone.txt": None, "notes/new.txt": "now\n"})
    done = scene.back("k1")
    assert done.exact
    assert {
        name: content for name, (_, content) in scene.contents().items() if name.startswith(b"notes/")
    } == {
        b"notes/kept.txt": b"then\n",
        b"notes/gone.txt": b"then\n",
    }
    assert steps(done.repos[0].files) == {
        "notes/gone.txt": ("create", "turn"),
        "notes/kept.txt": ("modify", "turn"),
        "notes/new.txt": ("delete", "turn"),
    }


@pytest.mark.contract("V-104", "V-105")
def test_a_deleted_tracked_file_is_deleted_again(tmp_path: Path) -> None:
    """A tracked file that was deleted at the checkpoint and is there again goes, though HEAD and the index have it."""
    scene = Scene.in_place(tmp_path)
    scene.tree.delete("src/main.py")
    scene.changes({"src/main.py": "again\n"})
    done = scene.back("k1")
    assert done.exact
    assert not scene.tree.exists("src")
    assert steps(done.repos[0].files) == {"src/main.py": ("delete", "turn")}


@pytest.mark.contract("V-118")
def test_a_file_that_is_marked_assume_unchanged_comes_back(tmp_path: Path) -> None:
    """What the mark hides from git is captured and restored, and the mark stays."""
    scene = Scene.in_place(tmp_path)
    scene.tree.git("update-index", "--assume-unchanged", "README.md")
    scene.put({"README.md": "hidden from git\n"})
    scene.changes({"README.md": "changed again\n"})
    assert scene.back("k1").exact
    assert scene.tree.read("README.md") == b"hidden from git\n"
    assert scene.tree.text("ls-files", "-v", "README.md") == "h README.md"


# --- kinds -----------------------------------------------------------------------------------------------------------


def make(scene: Scene, name: str, kind: str, outside: Path) -> None:
    """Put one kind of thing under a name, whatever was there."""
    if scene.tree.exists(name):
        scene.tree.delete(name)
    if kind in ("file", "other"):
        scene.tree.write(name, f"{kind} of {name}\n")
    elif kind == "exec":
        scene.tree.write(name, f"exec of {name}\n", mode=0o755)
    elif kind == "link":
        scene.tree.link(name, "no/such/file")
    elif kind == "link_to_folder":
        scene.tree.link(name, str(outside))
    elif kind == "folder":
        scene.tree.write(f"{name}/inner/file", f"folder of {name}\n")
        scene.tree.write(f"{name}/inside", f"folder of {name}\n", mode=0o755)


@pytest.mark.contract("V-106", "V-107", "V-256", "V-262", "V-263", "V-264")
@pytest.mark.parametrize("build", [Scene.in_place, Scene.worktree], ids=["in_place", "worktree"])
def test_every_kind_of_thing_becomes_every_other(build: Callable[[Path], Scene], tmp_path: Path) -> None:
    """All pairs of file, executable, link, link to a folder, folder and nothing, there and back in one rollback each."""
    scene = build(tmp_path)
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    for name in ("inner/file", "inside"):
        (outside / name).write_text("somebody else's\n")
    pairs = [(one, two) for one in KINDS for two in KINDS]
    for one, two in pairs:
        make(scene, f"pairs/{one}-to-{two}", one, outside)
    then = {}
    with scene.turn():
        then = scene.contents()
        for one, two in pairs:
            make(scene, f"pairs/{one}-to-{two}", two, outside)
    now = scene.contents()
    done = scene.back("k1")
    assert done.exact
    assert done.repos[0].left == ()
    assert scene.contents() == then
    assert scene.back(done.safety).exact
    assert scene.contents() == now
    for name in ("inner/file", "inside"):
        assert (outside / name).read_text() == "somebody else's\n"


def test_a_file_takes_the_place_of_a_tree_of_folders(tmp_path: Path) -> None:
    """A folder that holds files and empty folders, all of which go, gives way to a file of its name."""
    scene = Scene.in_place(tmp_path, {"a": "a file\n"})
    with scene.turn():
        scene.put({"a": None, "a/b/c/d": "1\n", "a/b/e": "2\n"})
        scene.tree.at("a/empty/one/two").mkdir(parents=True)
    done = scene.back("k1")
    assert done.exact
    assert scene.tree.read("a") == b"a file\n"
    assert scene.back(done.safety).exact
    assert scene.tree.read("a/b/c/d") == b"1\n"


# --- folders ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-262")
def test_folders_that_become_empty_go_and_the_root_stays(tmp_path: Path) -> None:
    """Every folder that only held deleted files goes, one with another file or an empty folder of a person's stays."""
    scene = Scene.in_place(tmp_path, {"README.md": "readme\n"})
    scene.tree.delete("README.md")
    with scene.turn():
        scene.put({"deep/er/and/deeper/file": "1\n", "mixed/new": "2\n", "top": "3\n"})
    scene.tree.at("mixed/a-persons").mkdir()
    assert scene.back("k1").exact
    assert scene.tree.path.is_dir()
    assert sorted(os.listdir(scene.tree.path)) == [".git", "mixed"]
    assert os.listdir(scene.tree.at("mixed")) == ["a-persons"]


def test_a_folder_that_gets_a_file_again_keeps_its_permissions(tmp_path: Path) -> None:
    """All files of a private folder are replaced by others: the folder is never made anew, so nobody else can look into it."""
    scene = Scene.in_place(tmp_path, {"private/old/one": "1\n"})
    scene.tree.at("private").chmod(0o700)
    scene.tree.at("private/old").chmod(0o700)
    inode = scene.tree.at("private/old").stat().st_ino
    scene.changes({"private/old/one": None, "private/old/two": "2\n"})
    scene.tree.at("private").chmod(0o700)
    scene.tree.at("private/old").chmod(0o700)
    inode = scene.tree.at("private/old").stat().st_ino
    assert scene.back("k1").exact
    assert folders_of(scene.tree.path) == {b"private": 0o700, b"private/old": 0o700}
    assert scene.tree.at("private/old").stat().st_ino == inode


# --- what isn't touched ----------------------------------------------------------------------------------------------


@pytest.mark.contract("V-040")
def test_files_outside_the_plan_keep_inode_and_times(tmp_path: Path) -> None:
    """A rollback of one file in a tree of many: every other file is the very same one."""
    files: dict[str | bytes, str | bytes | None] = {
        f"src/f{number}.py": f"{number}\n" for number in range(30)
    }
    scene = Scene.in_place(tmp_path, files)
    scene.changes({"src/f7.py": "changed\n"})
    before = scene.files()
    scene.back("k1")
    after = scene.files()
    assert after.pop(b"src/f7.py").content == b"7\n"
    before.pop(b"src/f7.py")
    assert after == before


def test_a_file_that_is_right_already_is_not_rewritten(tmp_path: Path) -> None:
    """A file whose bytes are the checkpoint's, though git stores them in another way now, keeps its inode."""
    scene = Scene.in_place(tmp_path, {".gitattributes": "*.txt -text\n", "a.txt": "one\r\ntwo\r\n"})
    scene.changes({".gitattributes": "*.txt text\n"})
    scene.tree.write("a.txt", "one\r\ntwo\r\n")
    with scene.turn():
        pass
    inode = scene.tree.at("a.txt").stat().st_ino
    done = scene.back("k1", outside="overwrite")
    assert "a.txt" in paths(done.repos[0].files)
    assert scene.tree.read("a.txt") == b"one\r\ntwo\r\n"
    assert scene.tree.at("a.txt").stat().st_ino == inode
    assert done.exact


def test_a_plan_without_steps_writes_nothing(tmp_path: Path) -> None:
    """Going back to what is there already touches no file, and still leaves its two checkpoints."""
    scene = Scene.in_place(tmp_path)
    with scene.turn():
        pass
    before = scene.files()
    done = scene.back("k1")
    assert done.exact
    assert done.repos[0].files == ()
    assert scene.files() == before
    assert (done.safety, done.after) == ("k2", "k3")


# --- permissions -----------------------------------------------------------------------------------------------------


def test_a_rewritten_secret_stays_private(tmp_path: Path) -> None:
    """0600 stays 0600 when the content goes back, and a file made anew gets its 0600 back."""
    scene = Scene.in_place(tmp_path)
    scene.tree.write("changed.key", "then\n", mode=0o600)
    scene.tree.write("deleted.key", "then\n", mode=0o600)
    scene.tree.write("tool", "then\n", mode=0o700)
    scene.tree.write("widened.key", "then\n", mode=0o600)
    with scene.turn():
        scene.tree.write("changed.key", "now\n")
        scene.put({"deleted.key": None, "tool": None})
        scene.tree.write("widened.key", "now\n", mode=0o644)
    done = scene.back("k1")
    assert done.exact
    modes = {name: stat.S_IMODE(mode) for name, (mode, _) in scene.contents().items()}
    assert modes[b"changed.key"] == 0o600
    assert modes[b"deleted.key"] == 0o600
    assert modes[b"tool"] == 0o700
    assert modes[b"widened.key"] == 0o600


def test_bits_beyond_gits_stay_as_a_person_set_them(tmp_path: Path) -> None:
    """A file that a person made private since the checkpoint isn't made public again; the exec bit alone is git's."""
    scene = Scene.in_place(tmp_path, {"a": "1\n", "run": "1\n"})
    with scene.turn():
        scene.put({"a": "2\n", "run": "2\n"})
        scene.tree.at("a").chmod(0o640)
        scene.tree.at("run").chmod(0o750)
    scene.back("k1")
    assert stat.S_IMODE(scene.tree.at("a").stat().st_mode) == 0o640
    assert stat.S_IMODE(scene.tree.at("run").stat().st_mode) == 0o640


def test_without_file_modes_the_exec_bit_on_disk_stays(tmp_path: Path) -> None:
    """With core.fileMode=false the trees know nothing of exec bits, so a rollback leaves the ones there are."""
    scene = Scene.in_place(tmp_path, {"run": "1\n"})
    scene.tree.git("config", "core.fileMode", "false")
    scene.tree.at("run").chmod(0o755)
    scene.changes({"run": "2\n"})
    done = scene.back("k1")
    assert done.exact
    assert scene.tree.read("run") == b"1\n"
    assert stat.S_IMODE(scene.tree.at("run").stat().st_mode) == 0o755


def test_without_links_a_links_target_is_kept_in_a_file(tmp_path: Path) -> None:
    """With core.symlinks=false a link is a file with the target's name: it is restored as that, and replaced as that."""
    scene = Scene.in_place(tmp_path, {"README.md": "readme\n"})
    scene.tree.link("link", "README.md")
    scene.tree.commit("a link")
    scene.tree.git("config", "core.symlinks", "false")
    scene.tree.delete("link")
    scene.tree.write("link", "README.md")
    scene.changes({"link": "elsewhere"})
    done = scene.back("k1")
    assert reasons(done.repos[0].left) == {}
    assert done.exact
    assert not scene.tree.at("link").is_symlink()
    assert scene.tree.read("link") == b"README.md"
