"""What a rollback leaves alone, and that it says why: ignored files, big ones, submodules, nested repositories, names of another kind."""

import os
from pathlib import Path
from typing import Any

import pytest

from support.git_repo import GitRepo
from support.rollbacks import Scene, paths, reasons, steps
from turnback.errors import Failed
from turnback.records.events import Record


def left(done: Any) -> dict[str, str]:
    """Path to reason, of the first repository."""
    return reasons(done.repos[0].left)


# --- ignored files ---------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-041")
def test_ignored_files_are_never_touched(tmp_path: Path) -> None:
    """Files that .gitignore, info/exclude and the user's excludes file cover are neither deleted nor overwritten."""
    scene = Scene.in_place(
        tmp_path, {".gitignore": "*.log\n", "sub/.gitignore": "/out/\n", "README.md": "r\n"}
    )
    excludes = tmp_path / "excludes"
    excludes.write_text("*.mine\n")
    scene.tree.git("config", "core.excludesFile", str(excludes))
    (scene.tree.git_dir / "info" / "exclude").write_text("*.local\n")
    hidden = ("a.log", "sub/out/x", "a.mine", "a.local")
    scene.put(dict.fromkeys(hidden, "then\n"))
    scene.changes({**dict.fromkeys(hidden, "now\n"), "deep/b.log": "now\n", "README.md": "changed\n"})
    before = scene.files()
    done = scene.back("k1")
    assert done.exact
    assert paths(done.repos[0].files) == ["README.md"]
    after = scene.files()
    assert {name for name in before if before[name] != after.get(name)} == {b"README.md"}


def test_a_secret_that_the_agent_stopped_ignoring_is_not_deleted(tmp_path: Path) -> None:
    """An agent that edits .gitignore makes .env look new: it was there before, and no capture knows that. It stays."""
    scene = Scene.in_place(tmp_path, {".gitignore": ".env\nbuild/\n", "README.md": "readme\n"})
    scene.put({".env": "SECRET=1\n", "build/cache/x": "x\n"})
    scene.changes({".gitignore": "# nothing\n", "new.txt": "new\n"})
    before = scene.files()
    done = scene.back("k1")
    assert left(done) == {".env": "ignored", "build/cache/x": "ignored"}
    assert steps(done.repos[0].files) == {".gitignore": ("modify", "turn"), "new.txt": ("delete", "turn")}
    for name in (b".env", b"build/cache/x"):
        assert scene.files()[name] == before[name]
    assert scene.tree.git("status", "--porcelain") == b""


@pytest.mark.parametrize("where", ["info/exclude", "core.excludesFile"])
def test_the_ignore_rules_of_the_checkpoint_are_more_than_its_tree(tmp_path: Path, where: str) -> None:
    """A rule of the repository's or the user's own that is gone today still covers what it covered at the checkpoint."""
    scene = Scene.in_place(tmp_path)
    rules = tmp_path / "excludes"
    if where == "info/exclude":
        rules = scene.tree.git_dir / "info" / "exclude"
    else:
        scene.tree.git("config", "core.excludesFile", str(rules))
    rules.write_text(".env\n")
    scene.put({".env": "SECRET=1\n"})
    with scene.turn():
        rules.write_text("")
        scene.put({"new.txt": "new\n"})
    done = scene.back("k1")
    assert left(done) == {".env": "ignored"}
    assert scene.tree.read(".env") == b"SECRET=1\n"
    assert not scene.tree.exists("new.txt")


def test_todays_ignore_rules_count_too(tmp_path: Path) -> None:
    """A file that came after the checkpoint and that a rule of today covers, though it is tracked, stays."""
    scene = Scene.in_place(tmp_path)
    with scene.turn():
        scene.put({"out.bin": "1\n"})
        scene.tree.git("add", "out.bin")
        scene.put({".gitignore": "*.bin\n"})
    done = scene.back("k1")
    assert left(done) == {"out.bin": "ignored"}
    assert scene.tree.read("out.bin") == b"1\n"
    assert not scene.tree.exists(".gitignore")


def test_rules_that_nobody_can_read_any_more_spare_every_new_file(tmp_path: Path) -> None:
    """The kept text of a rule is gone from the pool: then no file counts as made since, and none is deleted."""
    scene = Scene.in_place(tmp_path)
    (scene.tree.git_dir / "info" / "exclude").write_text("*.log\n")
    scene.changes({"new.txt": "new\n", "README.md": "changed\n"})
    for place in (scene.state_dir / "pool").rglob("*"):
        if place.is_file():
            place.unlink()
    done = scene.back("k1")
    assert left(done) == {"new.txt": "ignored"}
    assert scene.tree.read("README.md") == b"readme\n"


# --- in the way ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-269", "V-270")
def test_an_ignored_file_where_a_tracked_one_was(tmp_path: Path) -> None:
    """An ignored file at the path, as a parent, and in a folder at the path: what nobody else has is not replaced."""
    scene = Scene.in_place(
        tmp_path, {"at": "then\n", "parent/file": "then\n", "folder": "then\n", "b": "1\n"}
    )
    scene.tree.git("rm", "-q", "--cached", "at", "parent/file", "folder")
    with scene.turn():
        scene.put({"at": None, "parent": None, "folder": None})
        scene.put({".gitignore": "at\nparent\nfolder\n", "b": "2\n"})
        scene.put({"at": "only copy\n", "parent": "only copy\n", "folder/inside": "only copy\n"})
    before = scene.files()
    done = scene.back("k1")
    assert left(done) == {
        "at": "ignored_in_the_way",
        "folder": "ignored_in_the_way",
        "parent/file": "ignored_in_the_way",
    }
    for name in (b"at", b"parent", b"folder/inside"):
        assert scene.files()[name] == before[name]
    assert scene.tree.read("b") == b"1\n"


def test_an_empty_folder_is_in_nobodys_way(tmp_path: Path) -> None:
    """Folders without a file in them give way to a file of the checkpoint's."""
    scene = Scene.in_place(tmp_path, {"a": "then\n"})
    with scene.turn():
        scene.tree.delete("a")
        scene.tree.at("a/b/c").mkdir(parents=True)
    done = scene.back("k1")
    assert done.exact
    assert scene.tree.read("a") == b"then\n"


# --- big, sparse, special --------------------------------------------------------------------------------------------


@pytest.mark.contract("V-116", "V-265")
def test_a_file_that_is_too_big_on_either_side_is_left(tmp_path: Path) -> None:
    """Too big now, too big at the checkpoint, or both: the file stays as it is and is named."""
    scene = Scene.in_place(tmp_path, {"now.bin": "small\n", "README.md": "readme\n"})
    scene.reopen(config={"checkpoints": {"max_file_bytes": 1000}})
    scene.put({"then.bin": "x" * 2000, "both.bin": "x" * 2000})
    scene.changes(
        {"now.bin": "y" * 3000, "then.bin": "small\n", "both.bin": "z" * 2000, "README.md": "changed\n"}
    )
    before = scene.files()
    done = scene.back("k1")
    assert left(done) == {"now.bin": "too_big", "then.bin": "too_big", "both.bin": "too_big"}
    assert paths(done.repos[0].files) == ["README.md"]
    for name in (b"now.bin", b"then.bin", b"both.bin"):
        assert scene.files()[name] == before[name]


@pytest.mark.contract("V-267")
def test_what_lies_outside_a_sparse_checkout_is_left(tmp_path: Path) -> None:
    """A path that is out of sight at the checkpoint or now is not written and not deleted."""
    scene = Scene.in_place(tmp_path, {"in/a": "1\n", "out/b": "1\n", "README.md": "readme\n"})
    scene.changes({"out/b": "2\n", "in/a": "2\n"})
    scene.tree.commit("both changed")
    scene.tree.git("sparse-checkout", "set", "--no-cone", "/in/", "/README.md")
    assert not scene.tree.exists("out/b")
    done = scene.back("k1", outside="overwrite")
    assert left(done) == {"out/b": "skip_worktree"}
    assert not scene.tree.exists("out/b")
    assert scene.tree.read("in/a") == b"1\n"
    assert scene.tree.text("ls-files", "-t", "out/b") == "S out/b"


def test_a_pipe_in_the_tree_is_left(tmp_path: Path) -> None:
    """A fifo is never opened; where a file of the checkpoint's was, it stays."""
    scene = Scene.in_place(tmp_path, {"a": "then\n", "b": "1\n"})
    with scene.turn():
        scene.put({"a": None, "b": "2\n"})
        os.mkfifo(scene.tree.at("a"))
    done = scene.back("k1")
    assert left(done) == {"a": "not_regular"}
    assert scene.tree.at("a").is_fifo()
    assert scene.tree.read("b") == b"1\n"


# --- submodules and nested repositories ------------------------------------------------------------------------------


def nested(scene: Scene, name: str) -> GitRepo:
    """A repository of its own in the tree, with one commit and one file that no commit has."""
    made = GitRepo.init(scene.tree.path / name)
    made.write("inner.txt", "inner\n")
    made.commit("inner")
    made.write("loose.txt", "in no commit\n")
    return made


@pytest.mark.contract("V-114", "V-268")
def test_a_moved_submodule_is_left_and_the_checkpoints_commit_named(tmp_path: Path) -> None:
    """The submodule's HEAD moved since: nothing in it changes, and ``left`` says where it was."""
    library = GitRepo.init(tmp_path / "library")
    library.write("lib.c", "1\n")
    then = library.commit("one")
    scene = Scene.in_place(tmp_path)
    scene.tree.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.path), "lib")
    scene.tree.commit("a submodule")
    inside = GitRepo(scene.tree.path / "lib")
    with scene.turn():
        inside.write("lib.c", "2\n")
        now = inside.commit("two")
        inside.write("lib.c", "not committed\n")
        scene.put({"README.md": "changed\n"})
    done = scene.back("k1")
    assert done.repos[0].left[0].to_dict() == {"path": "lib", "reason": "gitlink", "detail": then}
    assert inside.text("rev-parse", "HEAD") == now
    assert inside.read("lib.c") == b"not committed\n"
    assert done.repos[0].warnings is not None
    assert "lib" in done.repos[0].warnings[0]
    assert scene.tree.read("README.md") == b"readme\n"


@pytest.mark.contract("V-268")
def test_repositories_made_since_the_checkpoint_are_never_deleted(tmp_path: Path) -> None:
    """A nested repository, one without a commit, and a linked worktree inside the tree: all three survive, files and all."""
    scene = Scene.in_place(tmp_path)
    with scene.turn():
        nested(scene, "vendor/other")
        unborn = GitRepo.init(scene.tree.path / "fresh")
        unborn.write("work.txt", "in no commit\n")
        scene.tree.git("worktree", "add", "-q", "-b", "side", str(scene.tree.path / "side"))
        scene.tree.write("side/work.txt", "in no commit\n")
        scene.put({"new.txt": "new\n"})
    before = scene.files()
    done = scene.back("k1")
    assert left(done) == {"vendor/other": "gitlink", "fresh": "nested_unborn", "side": "gitlink"}
    assert paths(done.repos[0].files) == ["new.txt"]
    assert {name: state for name, state in before.items() if name != b"new.txt"} == scene.files()


def test_files_of_a_repository_whose_git_folder_vanished_are_left(tmp_path: Path) -> None:
    """Without its ``.git`` a nested repository looks like new files: beneath a gitlink of the checkpoint's they stay."""
    scene = Scene.in_place(tmp_path)
    nested(scene, "vendor")
    with scene.turn():
        scene.tree.delete("vendor/.git")
        scene.put({"new.txt": "new\n"})
    before = scene.files()
    done = scene.back("k1")
    assert left(done) == {"vendor": "gitlink"}
    assert paths(done.repos[0].files) == ["new.txt"]
    assert {name: state for name, state in before.items() if name != b"new.txt"} == scene.files()


def test_files_that_got_a_repository_around_them_are_left(tmp_path: Path) -> None:
    """The agent runs ``git init`` around tracked files and changes them: nothing in that repository is written."""
    scene = Scene.in_place(tmp_path, {"lib/a.c": "1\n", "README.md": "readme\n"})
    with scene.turn():
        GitRepo.init(scene.tree.path / "lib")
        scene.put({"lib/a.c": "2\n", "lib/b.c": "new\n", "README.md": "changed\n"})
    before = scene.files()
    done = scene.back("k1")
    assert set(left(done)) & {"lib", "lib/a.c"}
    assert scene.tree.read("README.md") == b"readme\n"
    for name in (b"lib/a.c", b"lib/b.c"):
        assert scene.files()[name] == before[name]


# --- names from a hostile tree ---------------------------------------------------------------------------------------


def planted(scene: Scene, entries: list[tuple[str, bytes, str]]) -> str:
    """A checkpoint whose tree somebody made by hand: (mode, path, content), in the log as if it had been captured; its id.

    git refuses to make such a tree, so every folder of it is written as an object of its own.
    """
    top: dict[bytes, Any] = {}
    for mode, path, content in entries:
        *above, name = path.split(b"/")
        here = top
        for folder in above:
            here = here.setdefault(folder, {})
        here[name] = (
            mode,
            scene.tree.git("hash-object", "-w", "--stdin", data=content.encode()).decode().strip(),
        )

    def written(rows: dict[bytes, Any]) -> str:
        raw = b""
        for name, row in sorted(rows.items()):
            mode, oid = ("40000", written(row)) if isinstance(row, dict) else row
            raw += b"%s %s\0%s" % (mode.encode(), name, bytes.fromhex(oid))
        made = scene.tree.git("hash-object", "-t", "tree", "--literally", "-w", "--stdin", data=raw)
        return made.decode().strip()

    tree = written(top)
    number = len(scene.agent.checkpoints(limit=1000).checkpoints) + 1
    state = scene.ws._context.state()
    row: Any = dict(next(reversed(state.agents[scene.agent.id].checkpoints.values())))
    commit = scene.tree.text("commit-tree", tree, "-m", "by hand")
    scene.tree.git("update-ref", f"refs/venom/checkpoints/{scene.agent.id}/{number}", commit)
    row["checkpoint"] = f"k{number}"
    row["repos"] = [{**row["repos"][0], "tree": tree, "commit": commit}]
    scene.ws._context.log.append([Record("checkpoint.taken", row)])
    return f"k{number}"


HOSTILE = [
    b".git/hooks/post-checkout",
    b".GIT/config",
    b"git~1/config",
    b"sub/.git/config",
    b".g\xe2\x80\x8cit/config",
    b"../escape",
    b"a/../../escape",
    b"./dot",
    b"back\\..\\.git\\x",
]


def test_no_name_from_a_tree_is_trusted(tmp_path: Path) -> None:
    """A tree made by hand with ``.git`` in every spelling and ``..``: each such path is left, the harmless one is written."""
    scene = Scene.in_place(tmp_path, {"README.md": "readme\n"})
    with scene.turn():
        pass
    entries = [("100644", path, "evil\n") for path in HOSTILE]
    entries += [("120000", b".gitmodules", "/etc/passwd"), ("100644", b"fine.txt", "fine\n")]
    entries += [("100644", b"README.md", "readme\n")]
    checkpoint = planted(scene, entries)
    before = scene.tree.snapshot_everything(without=[b".git/logs/"])
    done = scene.back(checkpoint, outside="overwrite")
    found = left(done)
    assert set(found.values()) == {"invalid_path"}
    assert len(found) == len(HOSTILE) + 1
    assert paths(done.repos[0].files) == ["fine.txt"]
    after = scene.tree.snapshot_everything(without=[b".git/logs/"])
    assert [change for change in before.changes(after) if not change.startswith("ref ")] == ["made fine.txt"]
    assert not (tmp_path / "escape").exists()
    assert not (tmp_path / "app" / "escape").exists()


def test_a_link_that_no_filesystem_takes_costs_only_itself(tmp_path: Path) -> None:
    """An empty link target, one with a NUL, one that is too long, and a name that is too long are left; the rest is written."""
    scene = Scene.in_place(tmp_path, {"README.md": "readme\n"})
    with scene.turn():
        pass
    entries = [
        ("120000", b"empty", ""),
        ("120000", b"nul", "a\0b"),
        ("120000", b"long", "x/" * 3000),
        ("100644", b"n" * 300, "x\n"),
        ("100644", b"m" * 300 + b"/inside", "x\n"),
        ("100644", b"README.md", "other\n"),
    ]
    checkpoint = planted(scene, entries)
    done = scene.back(checkpoint, outside="overwrite")
    assert set(left(done).values()) == {"invalid_path"}
    assert len(left(done)) == 5
    assert not done.exact
    assert scene.tree.read("README.md") == b"other\n"
    assert sorted(os.listdir(scene.tree.path)) == [".git", "README.md"]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A folder of the checkpoint's is a link to another place now: the link goes, and the other place is untouched."""
    scene = Scene.in_place(tmp_path, {"conf/a": "then\n", "conf/deep/b": "then\n"})
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "a").write_text("somebody's\n")
    (outside / "deep/b").write_text("somebody's\n")
    with scene.turn():
        scene.tree.delete("conf")
        scene.tree.link("conf", str(outside))
    done = scene.back("k1")
    assert done.exact
    assert scene.tree.read("conf/deep/b") == b"then\n"
    assert not scene.tree.at("conf").is_symlink()
    assert (outside / "a").read_text() == "somebody's\n"
    assert (outside / "deep/b").read_text() == "somebody's\n"
    scene.back(done.safety)
    assert scene.tree.at("conf").is_symlink()
    assert sorted(os.listdir(outside)) == ["a", "deep"]


def test_an_ignored_link_in_place_of_a_folder_is_in_the_way(tmp_path: Path) -> None:
    """The link is in no capture, so it isn't taken away, and nothing is written behind it."""
    scene = Scene.in_place(tmp_path, {"conf/a": "then\n", "b": "1\n"})
    scene.tree.git("rm", "-q", "-r", "--cached", "conf")
    outside = tmp_path / "outside"
    outside.mkdir()
    with scene.turn():
        scene.tree.delete("conf")
        scene.tree.link("conf", str(outside))
        scene.put({".gitignore": "conf\n", "b": "2\n"})
    done = scene.back("k1")
    assert left(done) == {"conf/a": "ignored_in_the_way"}
    assert os.listdir(outside) == []
    assert scene.tree.read("b") == b"1\n"


# --- names that are one on some filesystems --------------------------------------------------------------------------


def test_a_changed_letter_case_is_no_obstacle_where_case_counts_for_nothing(tmp_path: Path) -> None:
    """With core.ignoreCase a path of the checkpoint's that only differs in case from one that goes is not in its own way."""
    scene = Scene.in_place(tmp_path)
    scene.put({"Notes": "then\n"})
    with scene.turn():
        scene.put({"Notes": None, "NOTES": "now\n"})
    scene.tree.git("config", "core.ignoreCase", "true")
    done = scene.back("k1")
    assert steps(done.repos[0].files) == {"NOTES": ("delete", "turn"), "Notes": ("create", "turn")}
    assert scene.tree.read("Notes") == b"then\n"


def test_two_names_that_are_one_are_left(tmp_path: Path) -> None:
    """A checkpoint with both ``readme`` and ``README`` can't be written where they are one file: neither is touched."""
    scene = Scene.in_place(tmp_path, {"README": "one\n", "readme": "two\n", "b": "1\n"})
    scene.changes({"README": None, "readme": None, "b": "2\n"})
    scene.tree.git("config", "core.ignoreCase", "true")
    done = scene.back("k1")
    assert left(done) == {"README": "invalid_path", "readme": "invalid_path"}
    assert paths(done.repos[0].files) == ["b"]


# --- what can't be restored at all -----------------------------------------------------------------------------------


def test_a_checkpoint_whose_objects_are_gone_changes_nothing(tmp_path: Path) -> None:
    """A blob of the checkpoint's has vanished: the rollback fails before its first write."""
    scene = Scene.in_place(tmp_path)
    scene.put({"a.txt": "then\n"})
    scene.changes({"a.txt": "now\n", "README.md": "changed\n"})
    oid = scene.tree.text("rev-parse", "refs/venom/checkpoints/a5/1:a.txt")
    plan = scene.plan("k1").plan
    place = scene.tree.git_dir / "objects" / oid[:2] / oid[2:]
    place.unlink()
    before = scene.files()
    with pytest.raises(Failed) as failed:
        scene.agent.rollback("k1", restore="files", plan=plan)
    assert failed.value.code == "failed.rollback_undone"
    assert oid in failed.value.message
    assert scene.files() == before


@pytest.mark.contract("V-123", "V-400")
def test_edits_of_ignored_files_are_listed(tmp_path: Path) -> None:
    """An edit call that named an ignored file since the checkpoint is in ``ignored_edits``; one before it is not."""
    scene = Scene.in_place(tmp_path, {".gitignore": "*.env\n", "README.md": "readme\n"})
    scene.changes({"before.env": "1\n", "README.md": "1\n"}, named=("before.env",))
    scene.changes({"after.env": "1\n", "README.md": "x\n"}, named=("after.env", "README.md"))
    plan = scene.plan("k2")
    assert plan.repos[0].ignored_edits == ("after.env",)
    assert scene.back("k2").repos[0].ignored_edits == ("after.env",)
    assert scene.tree.read("after.env") == b"1\n"
