"""The commit and the ref of a checkpoint: what is in them, and that nothing which is there already is ever overwritten."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.captures import Captures, populated
from support.children import Child
from support.git_repo import GitRepo
from turnback.errors import Failed
from turnback.gitstore import refs
from turnback.gitstore.repo import Repository
from turnback.operations import capture

FIRST = "refs/venom/checkpoints/a1/1"


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return populated(tmp_path / "repo")


@pytest.fixture
def captures(repo: GitRepo, tmp_path: Path) -> Captures:
    return Captures(repo.path, tmp_path / "state")


def objects(repo: GitRepo) -> set[str]:
    """Every object of a repository."""
    rows = repo.text("cat-file", "--batch-all-objects", "--batch-check").splitlines()
    return {row.split(" ")[0] for row in rows}


# --- what is in them -----------------------------------------------------------------------------------------------


@pytest.mark.contract("V-001", "V-030", "V-160")
def test_checkpoint_is_a_commit_that_no_branch_holds(repo: GitRepo, captures: Captures) -> None:
    """The ref has the agreed name, git's own tools list it, and no branch contains it."""
    shot = captures.take()
    assert shot.id == "k1"
    assert repo.refs()[FIRST] == shot.commit
    assert repo.text("branch", "--contains", shot.commit) == ""
    repo.write("README.md", "more\n")
    again = captures.take()
    assert again.id == "k2"
    stat = repo.text("diff", "--stat", FIRST, "refs/venom/checkpoints/a1/2")
    assert "README.md" in stat
    assert "1 file changed" in stat


@pytest.mark.contract("V-138", "V-140", "V-141")
def test_commit_says_whose_it_is(repo: GitRepo, captures: Captures) -> None:
    """Parent HEAD, a subject line and trailers that git itself can parse; the turn only inside one."""
    shot = captures.take()
    head = repo.text("rev-parse", "HEAD")
    assert repo.text("rev-list", "--parents", "--max-count=1", shot.commit) == f"{shot.commit} {head}"
    message = repo.git("show", "-s", "--format=%B", shot.commit)
    assert message.startswith(b"venom checkpoint a1/k1\n\n")
    trailers = repo.git("interpret-trailers", "--parse", data=message).decode().splitlines()
    assert trailers == ["Venom-Agent: a1", "Venom-Checkpoint: k1", "Venom-Reason: manual"]
    repo.write("README.md", "more\n")
    with captures.agent.turn():
        pass
    message = repo.git("show", "-s", "--format=%B", captures.shot("k2").commit)
    trailers = repo.git("interpret-trailers", "--parse", data=message).decode().splitlines()
    assert trailers[-2:] == ["Venom-Reason: turn_start", "Venom-Turn: t1"]


def test_message_is_what_the_contract_has() -> None:
    """The subject and the trailers, in their order, with one empty line between."""
    text = capture.message("a2", "k3", capture.Moment("turn_end", "t2"))
    assert text == (
        "venom checkpoint a2/k3\n\nVenom-Agent: a2\nVenom-Checkpoint: k3\nVenom-Reason: turn_end\nVenom-Turn: t2\n"
    )


@pytest.mark.contract("V-145")
def test_commits_of_the_agent_stay_reachable(repo: GitRepo, captures: Captures) -> None:
    """What the agent committed is held by the checkpoint, also when its branch goes back."""
    made = repo.commit("by the agent")
    captures.take()
    repo.git("reset", "-q", "--hard", "HEAD^")
    repo.git("reflog", "expire", "--expire=now", "--all")
    assert made not in repo.text("fsck", "--unreachable")


# --- only where there is nothing -----------------------------------------------------------------------------------


@pytest.mark.contract("V-142", "V-159")
def test_ref_that_is_there_is_never_overwritten(repo: GitRepo, captures: Captures) -> None:
    """A ref of a log that is gone keeps what it holds; the checkpoint takes the next free number."""
    head = repo.text("rev-parse", "HEAD")
    repo.git("update-ref", FIRST, head)
    repo.git("update-ref", "refs/venom/checkpoints/a1/2", head)
    repo.git("pack-refs", "--all")
    repo.git("update-ref", "refs/venom/checkpoints/a1/3", head)
    shot = captures.take()
    assert shot.id == "k4"
    assert "Venom-Checkpoint: k4" in repo.text("show", "-s", "--format=%B", shot.commit)
    assert repo.refs()[FIRST] == head


def test_thousand_refs_of_a_lost_log_cost_one_commit(repo: GitRepo, captures: Captures) -> None:
    """The free number is looked for before anything is made."""
    head = repo.text("rev-parse", "HEAD")
    rows = "".join(f"create refs/venom/checkpoints/a1/{number} {head}\n" for number in range(1, 1001))
    repo.git("update-ref", "--stdin", data=rows.encode())
    before = objects(repo)
    shot = captures.take()
    assert shot.id == "k1001"
    assert objects(repo) - before == {shot.commit}


def damaged(repo: GitRepo) -> None:
    (repo.git_dir / FIRST).parent.mkdir(parents=True)
    (repo.git_dir / FIRST).write_text("not an id\n")


def emptied_by_a_power_cut(repo: GitRepo) -> None:
    (repo.git_dir / FIRST).parent.mkdir(parents=True)
    (repo.git_dir / FIRST).write_text("")


def symbolic_and_dangling(repo: GitRepo) -> None:
    repo.git("symbolic-ref", FIRST, "refs/heads/nowhere")


def refs_beneath(repo: GitRepo) -> None:
    repo.git("update-ref", f"{FIRST}/x", "HEAD")


def packed_refs_beneath(repo: GitRepo) -> None:
    refs_beneath(repo)
    repo.git("pack-refs", "--all")


@pytest.mark.parametrize(
    "make",
    [damaged, emptied_by_a_power_cut, symbolic_and_dangling, refs_beneath, packed_refs_beneath],
    ids=lambda make: make.__name__,
)
def test_whatever_stands_at_the_name_stays(
    make: Callable[[GitRepo], None], repo: GitRepo, captures: Captures
) -> None:
    """A ref that can't be read, leads nowhere or is a folder is somebody's too: the next number is taken, and the store stays sound."""
    make(repo)
    place = repo.git_dir / FIRST
    before = place.read_bytes() if place.is_file() else None
    shot = captures.take()
    assert shot.id == "k2"
    assert (place.read_bytes() if place.is_file() else None) == before
    assert repo.refs()["refs/venom/checkpoints/a1/2"] == shot.commit


@pytest.mark.parametrize("packed", [False, True])
def test_ref_above_is_in_the_way(repo: GitRepo, captures: Captures, *, packed: bool) -> None:
    """A ref with the name of the folder makes every checkpoint impossible: that is said, with its name, and nothing is made."""
    repo.git("update-ref", "refs/venom/checkpoints/a1", "HEAD")
    if packed:
        repo.git("pack-refs", "--all")
    before = repo.snapshot_everything()
    with pytest.raises(Failed, match="there is a ref refs/venom/checkpoints/a1") as caught:
        captures.take()
    assert caught.value.code == "failed.checkpoint_git"
    assert before.changes(repo.snapshot_everything()) == []


def test_empty_folder_of_an_old_ref_is_no_hindrance(repo: GitRepo, captures: Captures) -> None:
    """git leaves empty folders behind when it packs refs."""
    (repo.git_dir / FIRST).mkdir(parents=True)
    assert captures.take().id == "k1"


def test_lock_of_somebody_else_is_waited_for_and_not_broken(
    repo: GitRepo, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ref's lock that stays is no reason to break it: the capture fails, says so, and works when the lock is gone."""
    lock = repo.git_dir / f"{FIRST}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setattr(refs, "_PATIENCE", 0.05)
    with pytest.raises(Failed, match="can't be created"):
        captures.take()
    assert lock.exists()
    lock.unlink()
    assert captures.take().id == "k1"


CREATE = """
from turnback.gitstore import refs
from turnback.gitstore.repo import Repository
repository = Repository(sys.argv[1])
say("ready")
hear()
won = []
for number in range(1, 101):
    try:
        refs.create(repository, f"refs/venom/checkpoints/a1/{number}", sys.argv[2])
        won.append(str(number))
    except refs.RefExists:
        pass
say(" ".join(won))
"""


@pytest.mark.contract("V-142")
def test_of_two_processes_only_one_makes_each_ref(repo: GitRepo) -> None:
    """Two processes that make the same hundred refs at the same moment: each ref is made once, and holds what its maker says."""
    ids = [repo.commit("one"), repo.commit("two")]
    with Child(CREATE, str(repo.path), ids[0]) as one, Child(CREATE, str(repo.path), ids[1]) as two:
        assert [child.hear() for child in (one, two)] == ["ready", "ready"]
        for child in (one, two):
            child.say("go")
        won = [{int(word) for word in child.hear().split()} for child in (one, two)]
    assert not won[0] & won[1]
    assert won[0] | won[1] == set(range(1, 101))
    found = repo.refs()
    for oid, numbers in zip(ids, won, strict=True):
        assert {found[f"refs/venom/checkpoints/a1/{number}"] for number in numbers} <= {oid}


def test_ref_that_somebody_takes_in_the_last_moment_costs_a_number(
    repo: GitRepo, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may take the number after it was found free: the capture goes on to the next one."""
    head = repo.text("rev-parse", "HEAD")
    create = refs.create

    def late(repository: Repository, name: str, oid: str) -> None:
        if name == FIRST:
            repo.git("update-ref", FIRST, head)
        create(repository, name, oid)

    monkeypatch.setattr(refs, "create", late)
    assert captures.take().id == "k2"
    assert repo.refs()[FIRST] == head


# --- several repositories ------------------------------------------------------------------------------------------


@pytest.mark.contract("A-18")
def test_failure_in_one_repository_leaves_no_ref_in_the_other(tmp_path: Path) -> None:
    """All or nothing: when the second ref can't be made, the first one goes again."""
    first, second = populated(tmp_path / "w/first"), populated(tmp_path / "w/second")
    second.git("update-ref", "refs/venom/checkpoints/a1", "HEAD")
    captures = Captures(tmp_path / "w", tmp_path / "state", repos=["first", "second"])
    with pytest.raises(Failed):
        captures.take(repo="first")
    assert first.refs().keys() == {"refs/heads/main"}
    second.git("update-ref", "-d", "refs/venom/checkpoints/a1")
    assert captures.take(repo="first").id == "k1"


def test_number_taken_in_one_repository_is_skipped_in_all(tmp_path: Path) -> None:
    """A checkpoint has the same number in every repository."""
    first, second = populated(tmp_path / "w/first"), populated(tmp_path / "w/second")
    second.git("update-ref", FIRST, "HEAD")
    captures = Captures(tmp_path / "w", tmp_path / "state", repos=["first", "second"])
    assert captures.take(repo="first").id == "k2"
    assert first.refs().keys() == {"refs/heads/main", "refs/venom/checkpoints/a1/2"}


def test_two_worktrees_of_one_repository_cant_share_an_agent(tmp_path: Path) -> None:
    """They share their refs, so one name would have to hold two commits; that is refused in words, not in an endless search."""
    first = populated(tmp_path / "w/first")
    first.git("worktree", "add", "-q", "--detach", str(tmp_path / "w/second"))
    captures = Captures(tmp_path / "w", tmp_path / "state", repos=["first", "second"])
    with pytest.raises(Failed, match="share its refs") as caught:
        captures.take(repo="first")
    assert caught.value.code == "failed.checkpoint_git"
    assert first.refs().keys() == {"refs/heads/main"}
