"""Opening a workspace: where its state is, that looking writes nothing, and what a bad folder is told."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
import pytest

from support.git_repo import GitRepo
from support.replay import Log
from turnback import (
    Config,
    NotFound,
    Principal,
    TurnbackError,
    Workspace,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def everything(*tops: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file and folder below some folders, ``.git`` included: mode, mtime, bytes."""
    found = {}
    for top in tops:
        for place in [top, *sorted(top.rglob("*"))]:
            status = place.lstat()
            data = place.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            found[str(place)] = (status.st_mode, status.st_mtime_ns, data)
    return found


# --- where the state is ---------------------------------------------------------------------------------------------


def test_a_mere_open_writes_nothing(repo: GitRepo, home: Path, tmp_path: Path) -> None:
    """Opening a workspace and asking it everything that can be asked leaves no file, no folder and no time changed."""
    before = everything(repo.path, home, tmp_path)
    workspace = Workspace.open(repo.path)
    assert workspace.agents() == []
    assert list(workspace.events()) == []
    with pytest.raises(NotFound):
        workspace.agent("a1")
    workspace.acting_as(Principal.agent("a1"))
    assert everything(repo.path, home, tmp_path) == before
    assert not os.path.lexists(workspace.state_dir)


def test_the_default_state_folder(repo: GitRepo, tmp_path: Path) -> None:
    """The default is one folder a workspace below the user's own state, the same for every spelling of its path."""
    workspace = Workspace.open(repo.path)
    user = platformdirs.user_state_dir("turnback", appauthor=False)
    assert os.path.dirname(workspace.state_dir) == user
    assert os.path.basename(workspace.state_dir).startswith("repo-")
    link = tmp_path / "link"
    link.symlink_to(repo.path)
    for spelled in (str(repo.path), os.fsencode(repo.path), link, f"{repo.path}/src/.."):
        assert Workspace.open(spelled).state_dir == workspace.state_dir
    other = GitRepo.init(tmp_path / "elsewhere" / "repo")
    assert Workspace.open(other.path).state_dir != workspace.state_dir


def test_the_home_folder_may_be_written_with_a_tilde(repo: GitRepo, home: Path) -> None:
    """``~`` stands for the home folder, in both parameters."""
    (home / "work").mkdir()
    workspace = Workspace.open("~/work", state_dir="~/state")
    assert workspace.folder == os.path.realpath(home / "work")
    assert workspace.state_dir == str(home / "state")


def test_no_variable_of_ours_is_read(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library takes the state folder and the principal from its caller alone; the variables are the command's to read."""
    plain = Workspace.open(repo.path)
    monkeypatch.setenv("TURNBACK_STATE", str(tmp_path / "other"))
    monkeypatch.setenv("TURNBACK_PRINCIPAL", "agent:a1")
    monkeypatch.setenv("TURNBACK_CONFIG", '{"checkpoints": {"enabled": false}}')
    again = Workspace.open(repo.path)
    assert again.state_dir == plain.state_dir
    assert again.principal == Principal.person()
    with again.add_agent("a1").turn() as turn:
        assert turn.checkpoint == "k1"


def test_the_state_folder_is_private(repo: GitRepo, tmp_path: Path) -> None:
    """Every folder of ours is 0700 and every file 0600, whatever the umask: prompts and bytes of private files are in them."""
    before = os.umask(0)
    try:
        workspace = Workspace.open(repo.path, state_dir=tmp_path / "far" / "away" / "state")
        repo.write(".git/info/exclude", "*.secret\n")  # kept in the pool
        with workspace.add_agent("a1").turn(prompt="the secret is 42"):
            repo.write("src/main.py", "print('two')\n")
    finally:
        os.umask(before)
    for top in (tmp_path / "far", Path.home() / ".local"):
        places = [top, *top.rglob("*")]
        assert len(places) > 3
        for place in places:
            wanted = 0o700 if place.is_dir() else 0o600
            assert stat.S_IMODE(place.lstat().st_mode) == wanted, place


@pytest.mark.contract("V-041")
def test_the_state_folder_is_never_captured(repo: GitRepo) -> None:
    """Forced to keep its state inside the tree, the library leaves it out of every checkpoint, and git status doesn't show it."""
    workspace = Workspace.open(repo.path, state_dir=repo.path / "state")
    agent = workspace.add_agent("a1", force=True)
    with agent.turn(prompt="a secret") as turn:
        repo.write("src/main.py", "print('two')\n")
    assert turn.ended is not None
    assert turn.ended.checkpoint == "k2"
    listed = set(repo.ls_tree("refs/venom/checkpoints/a1/2"))
    assert listed == {b"README.md", b"src/main.py"}
    assert repo.text("status", "--porcelain") == " M src/main.py"
    assert repo.text("rev-parse", "refs/venom/checkpoints/a1/2^{tree}") == repo.tree_of_add_all()
    plan = agent.rollback("k1", restore="files", dry_run=True)
    assert agent.rollback("k1", restore="files", plan=plan.plan).exact
    assert (repo.path / "state" / "log.ndjson").exists()


# --- bad folders ------------------------------------------------------------------------------------------------------


def refused(code: str, call: Callable[[], object], exit_code: int) -> str:
    """The sentence that a call is refused with; its code and exit code are as given."""
    with pytest.raises(TurnbackError) as caught:
        call()
    assert caught.value.code == code, caught.value.message
    assert caught.value.exit_code == exit_code
    assert json.loads(caught.value.to_json())["error"]["code"] == code
    return caught.value.message


@pytest.mark.parametrize("name", ["", "nowhere", "file", "a\0b", b"a\0b", "\ud800"])
def test_a_workspace_that_is_no_folder(
    name: str | bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing, a missing folder, a file and impossible names are refused by name; an empty name is not the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    before = everything(tmp_path)
    refused("invalid_params.workspace", lambda: Workspace.open(name), 2)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_a_state_folder_without_a_name(name: str, repo: GitRepo) -> None:
    """An empty state folder is a mistake, not the current folder."""
    refused("invalid_params.state_dir", lambda: Workspace.open(repo.path, state_dir=name), 2)


def test_without_a_home_folder(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody has a home folder, the sentence says to name a state folder; with one, everything works."""
    monkeypatch.setattr(platformdirs, "user_state_dir", lambda *_a, **_k: "~/.local/state/turnback")
    monkeypatch.setattr("turnback.workspace.workspace._TEMPORARY", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    said = refused("invalid_params.state_dir", lambda: Workspace.open(repo.path), 2)
    assert "--state-dir" in said
    with Workspace.open(repo.path, state_dir=tmp_path / "state").add_agent("a1").turn() as turn:
        assert turn.checkpoint == "k1"
    assert not (tmp_path / "~").exists()
    assert (tmp_path / f"turnback-{os.geteuid()}").is_dir()


def test_a_home_folder_that_can_not_be_written(
    repo: GitRepo, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a state folder elsewhere nothing needs the home folder: the locks of trees find another place, private too."""
    (home / ".local").write_text("a file where the folder should be")
    monkeypatch.setattr("turnback.workspace.workspace._TEMPORARY", str(tmp_path))
    with Workspace.open(repo.path, state_dir=tmp_path / "state").add_agent("a1").turn() as turn:
        assert turn.capture_failed is None
    locks = tmp_path / f"turnback-{os.geteuid()}"
    assert stat.S_IMODE(locks.stat().st_mode) == 0o700
    assert [name.suffix for name in locks.iterdir() if name.name.startswith("tree-")] == [".lock"]


def test_the_fallback_of_somebody_else_is_not_used(
    repo: GitRepo, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that others may write to is no place for locks: then they stand in the state folder."""
    (home / ".local").write_text("a file where the folder should be")
    monkeypatch.setattr("turnback.workspace.workspace._TEMPORARY", str(tmp_path))
    planted = tmp_path / f"turnback-{os.geteuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    with Workspace.open(repo.path, state_dir=tmp_path / "state").add_agent("a1").turn() as turn:
        assert turn.capture_failed is None
    assert list(planted.iterdir()) == []
    assert any(name.name.startswith("tree-") for name in (tmp_path / "state" / "locks").iterdir())


def test_a_file_in_place_of_the_state_folder(repo: GitRepo, tmp_path: Path) -> None:
    """A file where the state folder should be is named, and left as it is."""
    (tmp_path / "state").write_text("mine")
    said = refused("failed.state_folder", lambda: Workspace.open(repo.path, state_dir=tmp_path / "state"), 1)
    assert str(tmp_path / "state") in said
    refused(
        "failed.state_folder", lambda: Workspace.open(repo.path, state_dir=tmp_path / "state" / "below"), 1
    )
    assert (tmp_path / "state").read_text() == "mine"


def test_a_state_folder_that_others_may_write(repo: GitRepo, tmp_path: Path) -> None:
    """A state folder that anybody may write to is refused, with the command that mends it."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    said = refused("failed.state_folder", lambda: Workspace.open(repo.path, state_dir=tmp_path / "state"), 1)
    assert "chmod go-w" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_state_folder_that_can_not_be_written(repo: GitRepo, tmp_path: Path) -> None:
    """A read-only state folder can be read from; what would write says so, and adds nothing."""
    workspace = Workspace.open(repo.path, state_dir=tmp_path / "state")
    workspace.add_agent("a1").checkpoint()
    (tmp_path / "state").chmod(0o500)
    try:
        again = Workspace.open(repo.path, state_dir=tmp_path / "state")
        assert [row.checkpoint for row in again.agent("a1").checkpoints().checkpoints] == ["k1"]
        refused("failed.state_folder", lambda: again.add_agent("a2"), 1)
    finally:
        (tmp_path / "state").chmod(0o700)


@pytest.mark.parametrize("garbage", [b"not a log\n", b"\0" * 4096, b'{"seq":1}\n{"seq":2}\n'])
def test_garbage_in_place_of_the_log(garbage: bytes, repo: GitRepo, tmp_path: Path) -> None:
    """A log that is damaged is refused with the place of the damage, and not a byte of it is changed."""
    workspace = Workspace.open(repo.path, state_dir=tmp_path / "state")
    workspace.add_agent("a1").checkpoint()
    log = tmp_path / "state" / "log.ndjson"
    log.write_bytes(garbage + log.read_bytes())
    before = everything(tmp_path / "state")
    said = refused("failed.log_corrupt", lambda: Workspace.open(repo.path, state_dir=tmp_path / "state"), 1)
    assert "byte 0" in said
    after = everything(tmp_path / "state")
    lock = str(
        tmp_path / "state" / "log.lock"
    )  # damage is believed only under the lock, which notes its holder
    assert {**after, lock: before[lock]} == before


def test_a_log_of_a_newer_version(repo: GitRepo, tmp_path: Path) -> None:
    """A log of a format that doesn't exist yet is left alone, and the sentence says to install a newer turnback."""
    (tmp_path / "state").mkdir(mode=0o700)
    log = tmp_path / "state" / "log.ndjson"
    first = {"seq": 1, "ts": 1, "type": "log.created", "data": {"format": 2, "workspace": str(repo.path)}}
    log.write_text(json.dumps(first) + "\n")
    log.chmod(0o600)
    before = everything(tmp_path / "state")
    said = refused(
        "unsupported.log_format", lambda: Workspace.open(repo.path, state_dir=tmp_path / "state"), 10
    )
    assert "install a newer turnback" in said
    assert everything(tmp_path / "state") == before


def test_the_state_folder_of_another_workspace(repo: GitRepo, tmp_path: Path) -> None:
    """Two workspaces can't share a state folder: the second is told whose it is, and neither is changed."""
    Workspace.open(repo.path, state_dir=tmp_path / "state").add_agent("a1")
    other = GitRepo.init(tmp_path / "other")
    before = everything(tmp_path / "state", other.path)
    said = refused(
        "invalid_params.state_dir", lambda: Workspace.open(other.path, state_dir=tmp_path / "state"), 2
    )
    assert str(repo.path) in said
    assert everything(tmp_path / "state", other.path) == before


def test_two_workspaces_that_meet_at_the_first_record(repo: GitRepo, tmp_path: Path) -> None:
    """Both opened while the state folder was empty: the one that writes second is refused, and the log stays the first one's."""
    other = GitRepo.init(tmp_path / "other")
    other.commit()
    one = Workspace.open(repo.path, state_dir=tmp_path / "state")
    two = Workspace.open(other.path, state_dir=tmp_path / "state")
    one.add_agent("a1")
    refused("invalid_params.state_dir", lambda: two.add_agent("a1"), 2)
    assert [row["agent"] for row in Log(one.state_dir).of("agent.added")] == ["a1"]
    assert one.add_agent("a2").checkpoint().checkpoint == "k1"


@pytest.mark.parametrize("principal", ["person", "agent:a1", 7])
def test_a_principal_is_made_not_spelled(principal: Any, repo: GitRepo, tmp_path: Path) -> None:
    """A text where a principal belongs is refused at once, not at the first rollback."""
    said = refused("invalid_params.principal", lambda: Workspace.open(repo.path, principal=principal), 2)
    assert "Principal" in said
    refused("invalid_params.principal", lambda: Workspace.open(repo.path).acting_as(principal), 2)


@pytest.mark.contract("V-460")
@pytest.mark.parametrize(
    "config",
    [
        {"checkpoints": {"keeep": 1}},
        {"checkpoint": {}},
        {"checkpoints": {"timeout": "soon"}},
        '{"checkpoints": ',
        ["checkpoints"],
    ],
)
def test_a_configuration_with_a_mistake(config: Any, repo: GitRepo, home: Path) -> None:
    """A key that doesn't exist or a value that can't be is named, before anything is read or made."""
    refused("invalid_params.config", lambda: Workspace.open(repo.path, config=config), 2)
    assert list(home.iterdir()) == [home / "gitconfig"]


@pytest.mark.contract("V-461")
def test_a_repository_can_not_configure_us(repo: GitRepo, tmp_path: Path) -> None:
    """Files and git settings of the repository that look like configuration change nothing: the keys are the user's alone."""
    repo.write("turnback.json", '{"checkpoints": {"enabled": false}}')
    repo.write(".turnback/config.json", '{"checkpoints": {"enabled": false}}')
    repo.git("config", "checkpoints.enabled", "false")
    repo.git("config", "turnback.checkpoints.enabled", "false")
    with Workspace.open(repo.path, state_dir=tmp_path / "state").add_agent("a1").turn() as turn:
        assert turn.checkpoint == "k1"


def test_every_form_of_a_configuration(repo: GitRepo, tmp_path: Path) -> None:
    """A dict, JSON text, bytes and a Config say the same."""
    value = {"checkpoints": {"enabled": False}}
    for form in (value, json.dumps(value), json.dumps(value).encode(), Config.of(value)):
        workspace = Workspace.open(repo.path, state_dir=tmp_path / "state", config=form)
        agent = workspace.agents()[0] if workspace.agents() else workspace.add_agent("a1")
        with agent.turn() as turn:
            assert turn.checkpoint is None


# --- the state folder goes away ------------------------------------------------------------------------------------------


def test_the_state_folder_is_deleted_under_a_running_program(repo: GitRepo, tmp_path: Path) -> None:
    """Deleted from outside, the log is gone: agents are no longer known, and a new one begins a new log beside the old refs."""
    import shutil

    workspace = Workspace.open(repo.path, state_dir=tmp_path / "state")
    agent = workspace.add_agent("a1")
    assert agent.checkpoint().checkpoint == "k1"
    shutil.rmtree(tmp_path / "state")
    refused("not_found.agent", agent.checkpoint, 3)
    again = workspace.add_agent("a1")
    # The ref of the lost log is not overwritten: the next free number is taken (V-159).
    assert again.checkpoint().checkpoint == "k2"
    assert len(repo.refs()) == 3
