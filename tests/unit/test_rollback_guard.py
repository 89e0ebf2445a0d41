"""Whose work it is, on real histories; and that what somebody saw is what happens: windows, choices, plans, the safety checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.children import Child
from support.rollbacks import Rewinds, Scene, paths, reasons, steps
from turnback.errors import Conflict, Failed, InvalidParams, TurnbackError
from turnback.gitstore import refs
from turnback.native import moves
from turnback.policy.plan import digest


def outside(scene: Scene, checkpoint: str) -> list[str]:
    """The paths for which a choice is asked, empty when none is."""
    try:
        scene.plan(checkpoint)
    except Conflict as error:
        if error.code != "conflict.outside_edits":
            raise
        found: list[str] = error.data["repos"][0]["paths"]
        return found
    return []


def classes(scene: Scene, checkpoint: str) -> dict[str, str]:
    """Path to class of a plan that overwrites everything."""
    plan = scene.plan(checkpoint, outside="overwrite")
    return {path: kind for path, (_, kind) in steps(plan.repos[0].files).items()}


# --- windows on real histories ---------------------------------------------------------------------------------------


@pytest.mark.contract("V-231", "V-242", "V-243")
def test_the_agents_own_work_needs_no_choice(tmp_path: Path) -> None:
    """What a turn changed is ``agent`` where an edit call names it and ``turn`` elsewhere; a manual checkpoint in the middle splits nothing."""
    scene = Scene.in_place(tmp_path)
    with scene.turn() as turn:
        scene.put({"src/main.py": "2\n", "gen/a": "1\n"})
        turn.edited("src/main.py")
        scene.agent.checkpoint("in the middle")
        scene.put({"gen/b": "1\n"})
    assert outside(scene, "k1") == []
    assert classes(scene, "k1") == {"src/main.py": "agent", "gen/a": "turn", "gen/b": "turn"}


@pytest.mark.contract("V-234", "V-240", "V-241")
def test_edits_between_turns_and_since_the_last_one_are_outside(tmp_path: Path) -> None:
    """Before the next turn, after the last one, and a path that the agent changed as well: all are somebody else's."""
    scene = Scene.in_place(tmp_path, {"a": "1\n", "b": "1\n", "c": "1\n", "d": "1\n"})
    scene.changes({"a": "2\n", "b": "2\n"})
    scene.put({"b": "a person's\n", "c": "a person's\n"})
    scene.changes({"b": "3\n"})
    scene.put({"d": "a person's\n"})
    assert outside(scene, "k1") == ["b", "c", "d"]


@pytest.mark.contract("V-244")
def test_a_path_that_is_as_it_was_is_nobodys(tmp_path: Path) -> None:
    """Changed by a person and changed back: not in the plan, and no choice is asked for it."""
    scene = Scene.in_place(tmp_path, {"a": "1\n", "b": "1\n"})
    scene.changes({"a": "2\n"})
    scene.put({"b": "a person's\n"})
    scene.agent.checkpoint()
    scene.put({"b": "1\n"})
    assert outside(scene, "k1") == []
    assert classes(scene, "k1") == {"a": "turn"}


@pytest.mark.contract("V-233")
def test_a_rollbacks_own_writes_are_not_somebody_elses(tmp_path: Path) -> None:
    """Back, on with another turn, and back again: nothing of it asks for a choice."""
    scene = Scene.in_place(tmp_path)
    scene.changes({"src/main.py": "2\n"})
    scene.changes({"src/main.py": "3\n", "new": "1\n"})
    scene.back("k2")
    scene.changes({"src/main.py": "4\n"})
    assert outside(scene, "k1") == []
    assert scene.back("k1").exact
    assert scene.tree.read("src/main.py") == b"one\n"


@pytest.mark.contract("V-236", "V-238")
def test_changes_that_no_capture_frames_are_outside(tmp_path: Path) -> None:
    """A turn that the harness began itself, and one whose first capture failed: what they changed can't be shown to be theirs."""
    scene = Scene.in_place(tmp_path, {"a": "1\n", "b": "1\n"})
    scene.changes({"new": "1\n"})
    with scene.agent.turn(origin="harness"):
        scene.put({"a": "2\n"})
    index = scene.tree.git_dir / "index"
    good = index.read_bytes()
    index.write_bytes(b"no index")
    turn = scene.turn()
    index.write_bytes(good)
    assert turn.capture_failed is not None
    scene.put({"b": "2\n"})
    turn.end()
    assert outside(scene, "k1") == ["a", "b"]


@pytest.mark.contract("V-239")
def test_work_while_another_agent_was_at_it_is_outside(tmp_path: Path) -> None:
    """Two agents share the tree and their turns overlap: nobody can say whose the change was."""
    scene = Scene.in_place(tmp_path)
    other = scene.ws.add_agent("b1")
    with scene.turn():
        pass
    with other.turn(), scene.turn():
        scene.put({"src/main.py": "2\n"})
    assert outside(scene, "k1") == ["src/main.py"]


def test_two_agents_in_turn_know_their_own_work(tmp_path: Path) -> None:
    """The other agent's turns are a gap for this one, its own are not."""
    scene = Scene.in_place(tmp_path, {"a": "1\n", "b": "1\n"})
    other = scene.ws.add_agent("b1")
    scene.changes({"a": "2\n"})
    with other.turn():
        scene.put({"b": "2\n"})
    assert outside(scene, "k1") == ["b"]


@pytest.mark.contract("V-374")
def test_a_helper_that_outlives_its_turn_writes_into_a_gap(tmp_path: Path) -> None:
    """What lands after the turn's last capture is outside, whoever wrote it."""
    scene = Scene.in_place(tmp_path)
    scene.changes({"a": "1\n"})
    scene.put({"late": "from a background job\n"})
    assert outside(scene, "k1") == ["late"]


def test_refs_of_another_log_make_every_window_a_gap(tmp_path: Path) -> None:
    """Somebody else takes checkpoints here, with another state folder: nothing can be told from this log alone."""
    scene = Scene.in_place(tmp_path)
    with scene.turn():
        scene.put({"src/main.py": "2\n"})
        head = scene.tree.text(
            "commit-tree", "HEAD^{tree}", "-m", "x", extra={"GIT_COMMITTER_DATE": "2099-01-01T00:00:00Z"}
        )
        scene.tree.git("update-ref", "refs/venom/checkpoints/other/7", head)
    assert outside(scene, "k1") == ["src/main.py"]


@pytest.mark.contract("V-153")
def test_an_old_ref_that_no_log_names_is_ignored(tmp_path: Path) -> None:
    """One from before the checkpoint says nothing about what happened since."""
    scene = Scene.in_place(tmp_path)
    old = scene.tree.text(
        "commit-tree", "HEAD^{tree}", "-m", "x", extra={"GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
    )
    scene.tree.git("update-ref", "refs/venom/checkpoints/other/7", old)
    scene.changes({"src/main.py": "2\n"})
    assert outside(scene, "k1") == []


@pytest.mark.contract("V-248")
def test_a_persons_edit_while_the_turn_ran_can_be_had_back(tmp_path: Path) -> None:
    """It looks like the turn's and is rolled back with it; ``git show`` of the safety checkpoint gives it."""
    scene = Scene.in_place(tmp_path)
    with scene.turn():
        scene.put({"src/main.py": "a person's\n"})
    done = scene.back("k1")
    number = done.safety[1:]
    assert scene.tree.git("show", f"refs/venom/checkpoints/a5/{number}:src/main.py") == b"a person's\n"


# --- choices ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def edited(tmp_path: Path) -> Scene:
    """An agent in place; it changed ``a`` and a person ``b``."""
    scene = Scene.in_place(tmp_path, {"a": "1\n", "b": "1\n"})
    scene.changes({"a": "2\n"})
    scene.put({"b": "a person's\n"})
    return scene


@pytest.mark.contract("V-247")
def test_overwrite_restores_everything_and_loses_nothing(edited: Scene) -> None:
    """The person's file goes back too; what it held is in the safety checkpoint."""
    done = edited.back("k1", outside="overwrite")
    assert done.exact
    assert edited.tree.read("b") == b"1\n"
    assert edited.blob(done.safety, "b") == b"a person's\n"


@pytest.mark.contract("V-192", "V-247")
def test_in_an_unguarded_tree_overwrite_is_the_default(tmp_path: Path) -> None:
    """Nobody is asked; the plan still shows the class."""
    scene = Scene.worktree(tmp_path, {"a": "1\n", "b": "1\n"})
    scene.changes({"a": "2\n"})
    scene.put({"b": "somebody's\n"})
    assert classes(scene, "k1") == {"a": "turn", "b": "outside"}
    plan = scene.plan("k1")
    assert steps(plan.repos[0].files) == {"a": ("modify", "turn"), "b": ("modify", "outside")}
    with pytest.raises(Conflict):
        scene.plan("k1", outside="refuse")
    assert reasons(scene.back("k1", outside="keep").repos[0].left) == {"b": "outside"}


@pytest.mark.contract("V-396")
@pytest.mark.parametrize(
    ("choices", "code"),
    [
        ({"restore": "everything"}, "invalid_params.restore"),
        ({"outside": "perhaps"}, "invalid_params.outside"),
        ({"checkpoint": "kk"}, "invalid_params.checkpoint"),
    ],
)
def test_other_choices_are_refused(edited: Scene, choices: dict[str, str], code: str) -> None:
    """A word that isn't one of the contract's is the caller's mistake."""
    with pytest.raises(InvalidParams) as error:
        edited.plan(**{"checkpoint": "k1", **choices})
    assert error.value.code == code


# --- the plan --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-220", "V-397", "V-421")
def test_dry_run_and_plan_go_in_one_combination_each(edited: Scene) -> None:
    """Both or neither is ``invalid_params.plan``."""
    plan = edited.plan("k1", outside="keep").plan
    for arguments in ({}, {"dry_run": True, "plan": plan}, {"plan": "p1-nonsense"}):
        with pytest.raises(InvalidParams) as error:
            edited.agent.rollback("k1", restore="files", outside="keep", **arguments)
        assert error.value.code == "invalid_params.plan"


@pytest.mark.contract("V-222", "V-223")
def test_the_plan_is_the_digest_of_the_present_state(edited: Scene) -> None:
    """It is made of the choices and of each tree's id and HEAD as a capture finds them now."""
    plan = edited.plan("k1", outside="keep")
    tree, head = edited.tree.tree_of_add_all(), edited.tree.text("rev-parse", "HEAD")
    assert plan.plan == digest("k1", "files", "keep", False, [(".", tree, head)])


@pytest.mark.contract("V-225", "V-252", "V-436")
@pytest.mark.parametrize(
    "what", ["file", "mode", "raw", "commit", "restore", "outside", "keep_head", "checkpoint"]
)
def test_a_plan_for_anything_else_is_stale(tmp_path: Path, what: str) -> None:
    """A file, an exec bit, line endings that git doesn't see, HEAD, or a choice differs: ``rollback_stale``, and nothing happens."""
    scene = Scene.in_place(
        tmp_path, {".gitattributes": "*.crlf text eol=crlf\n", "a": "1\n", "x.crlf": "1\r\n"}
    )
    scene.changes({"a": "2\n"})
    scene.changes({"a": "3\n"})
    choices: dict[str, Any] = {"restore": "files", "outside": "overwrite", "keep_head": False}
    checkpoint = "k1"
    plan = scene.plan("k1", **choices).plan
    if what == "file":
        scene.put({"late": "1\n"})
    elif what == "mode":
        scene.tree.at("a").chmod(0o755)
    elif what == "raw":
        scene.put({"x.crlf": "1\n"})
    elif what == "commit":
        scene.tree.commit("moved", add=False)
    elif what == "checkpoint":
        checkpoint = "k2"
    else:
        choices[what] = {"restore": "all", "outside": "keep", "keep_head": True}[what]
        scene.agent.harness = Rewinds()
        scene.agent.harness.needs = None
    before = scene.tree.snapshot_everything(), scene.log()
    with pytest.raises(Conflict) as error:
        scene.agent.rollback(checkpoint, plan=plan, **choices)
    assert error.value.code == "conflict.rollback_stale"
    assert error.value.data == {"checkpoint": checkpoint}
    assert (scene.tree.snapshot_everything(), scene.log()) == before


@pytest.mark.contract("V-015", "V-221", "V-417")
def test_a_dry_run_leaves_objects_alone(edited: Scene) -> None:
    """No file, no ref, no record, no snapshot of the log: only objects that nothing holds."""
    before = edited.tree.snapshot_everything(), edited.log()
    edited.plan("k1", outside="keep")
    with pytest.raises(TurnbackError):
        edited.plan("k1")
    assert (edited.tree.snapshot_everything(), edited.log()) == before
    assert not [place for place in (edited.state_dir / "scratch").rglob("*") if place.is_file()]


CARRY_OUT = """
from turnback import Workspace
folder, state, plan = sys.argv[1:]
done = Workspace.open(folder, state_dir=state).agent("a5").rollback("k1", restore="files", outside="keep", plan=plan)
say(done.to_json().decode())
"""


@pytest.mark.contract("V-224")
def test_another_process_can_carry_the_plan_out(edited: Scene) -> None:
    """Nothing is kept between the calls: a process that never saw the dry run does what it said."""
    plan = edited.plan("k1", outside="keep")
    with Child(CARRY_OUT, str(edited.source.path), str(edited.state_dir), plan.plan) as child:
        done = json.loads(child.finish())
    assert done["exact"] is True
    assert done["repos"][0]["files"] == plan.to_dict()["repos"][0]["files"]
    assert edited.tree.read("a") == b"1\n"
    assert edited.ws.agent("a5").checkpoints().checkpoints[0].checkpoint == done["after"]


@pytest.mark.contract("V-398")
def test_each_call_has_its_own_members(edited: Scene) -> None:
    """``plan`` and ``guarded`` are the dry run's, ``safety``, ``after`` and ``exact`` the real call's."""
    plan = edited.plan("k1", outside="keep")
    done = edited.agent.rollback("k1", restore="files", outside="keep", plan=plan.plan)
    assert plan.to_dict().keys() - done.to_dict().keys() == {"plan", "guarded"}
    assert done.to_dict().keys() - plan.to_dict().keys() == {"safety", "after", "exact"}


# --- the safety checkpoint -------------------------------------------------------------------------------------------


@pytest.mark.contract("V-036", "V-039", "V-254")
def test_no_safety_checkpoint_no_rollback(edited: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ref can't be made: the rollback fails, and no file, ref or record is another than before."""
    plan = edited.plan("k1", outside="keep").plan

    def full(repository: Any, name: str, oid: str) -> None:
        raise Failed("checkpoint_git", f"{name} can't be created", reason="the disk is full")

    before = edited.tree.snapshot_everything(), edited.log()
    with monkeypatch.context() as patch:
        patch.setattr(refs, "create", full)
        with pytest.raises(Failed) as error:
            edited.agent.rollback("k1", restore="files", outside="keep", plan=plan)
    assert error.value.code == "failed.checkpoint_git"
    assert (edited.tree.snapshot_everything(), edited.log()) == before
    assert edited.agent.rollback("k1", restore="files", outside="keep", plan=plan).exact


@pytest.mark.contract("V-036", "V-039")
def test_the_safety_checkpoint_exists_before_the_first_write(
    edited: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first exchange its ref is there and holds every file of now, and the log says that the rollback began."""
    seen = []
    real = moves.exchange

    def looking(*arguments: Any) -> bool:
        seen.append((edited.blob("k3", "b"), edited.blob("k3", "a"), b"rollback.started" in edited.log()))
        return real(*arguments)

    monkeypatch.setattr("turnback.operations.apply.exchange", looking)
    edited.back("k1", outside="overwrite")
    assert seen[0] == (b"a person's\n", b"2\n", True)


@pytest.mark.contract("V-019", "V-260", "V-344")
def test_every_later_checkpoint_stays_reachable(tmp_path: Path) -> None:
    """After going far back one can still go forward to any of them, and all refs are as the log says."""
    scene = Scene.in_place(tmp_path, {"a": "0\n"})
    for number in range(1, 5):
        scene.changes({"a": f"{number}\n"})
    states = {f"k{number + 1}": f"{number}\n".encode() for number in range(5)}
    for checkpoint in ("k1", "k5", "k3", "k2", "k4", "k1"):
        assert scene.back(checkpoint).exact
        assert scene.tree.read("a") == states[checkpoint]
    listed = scene.agent.checkpoints(limit=100).checkpoints
    held = scene.tree.refs()
    for row in listed:
        assert held[f"refs/venom/checkpoints/a5/{row.checkpoint[1:]}"] == row.repos[0]["commit"]
    assert len(listed) == 5 + 2 * 6


# --- what happens in between -----------------------------------------------------------------------------------------


@pytest.mark.contract("V-258")
def test_a_write_elsewhere_during_the_rollback_shows_as_not_exact(
    edited: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody saves a file that isn't in the plan while it runs: it stays, and ``exact`` is false; the next window knows whose it is."""
    real = moves.exchange

    def meddle(*arguments: Any) -> bool:
        edited.put({"c": "a person's\n"})
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("turnback.operations.apply.exchange", meddle)
        done = edited.back("k1", outside="overwrite")
    assert not done.exact
    assert done.repos[0].left == ()
    assert paths(done.repos[0].files) == ["a", "b"]
    assert edited.tree.read("c") == b"a person's\n"
    assert outside(edited, "k1") == ["c"]
