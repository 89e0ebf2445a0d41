"""Which states refuse a rollback, and who may not call one: real agents, real trees, nothing changed by any refusal (7.1, 9, 11.4)."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.children import Child
from support.git_repo import GitRepo
from support.rollbacks import Scene
from turnback import Principal
from turnback.errors import Conflict, Denied, Failed, NotFound, TurnbackError, Unsupported
from turnback.workspace import Agent

# Carries a plan out and waits in the middle of the first file, so that the test sees a rollback that runs.
ROLL = """
from turnback import Workspace
from turnback.operations import apply
folder, state, agent, plan = sys.argv[1:]
real = apply.exchange
def waiting(*arguments):
    say("writing")
    hear()
    return real(*arguments)
apply.exchange = waiting
done = Workspace.open(folder, state_dir=state).agent(agent).rollback("k1", restore="files", outside="overwrite", plan=plan)
say("done" if done.exact else "not exact")
"""

# Takes a checkpoint and waits while it has the agent's lock.
CAPTURE = """
from turnback import Workspace
from turnback.operations import capture
folder, state, agent = sys.argv[1:]
real = capture.store
def waiting(*arguments):
    say("capturing")
    hear()
    return real(*arguments)
capture.store = waiting
Workspace.open(folder, state_dir=state).agent(agent).checkpoint()
say("done")
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """An agent in place with one turn behind it: a rollback to k1 would work."""
    made = Scene.in_place(tmp_path)
    made.changes({"src/main.py": "2\n"})
    return made


def refused(
    scene: Scene, agent: Agent | None = None, checkpoint: str = "k1", restore: str = "files"
) -> TurnbackError:
    """The error that both calls of a rollback end with; nothing has changed then."""
    target = agent or scene.agent
    before = scene.tree.snapshot_everything(), scene.log()
    errors = []
    for arguments in ({"dry_run": True}, {"plan": "p1-0123456789abcdef"}):
        with pytest.raises(TurnbackError) as error:
            target.rollback(checkpoint, restore=restore, outside="overwrite", **arguments)
        errors.append(error.value)
    assert errors[0].to_dict() == errors[1].to_dict(), "both calls are refused alike"
    assert (scene.tree.snapshot_everything(), scene.log()) == before
    return errors[0]


# --- what doesn't exist ----------------------------------------------------------------------------------------------


@pytest.mark.contract("V-044", "V-152", "V-200", "V-420")
@pytest.mark.parametrize("how", ["never existed", "ref deleted", "ref moved"])
def test_a_checkpoint_that_cannot_be_trusted_is_not_found(scene: Scene, how: str) -> None:
    """It never existed, or its ref is gone or names another commit: ``not_found.checkpoint``."""
    ref = "refs/venom/checkpoints/a5/1"
    if how == "ref deleted":
        scene.tree.git("update-ref", "-d", ref)
    elif how == "ref moved":
        scene.tree.git("update-ref", ref, "HEAD")
    error = refused(scene, checkpoint="k9" if how == "never existed" else "k1")
    assert isinstance(error, NotFound)
    assert error.code == "not_found.checkpoint"
    assert error.data == (
        {"checkpoint": "k9"} if how == "never existed" else {"checkpoint": "k1", "repo": "."}
    )


@pytest.mark.contract("V-200")
def test_an_agent_that_is_gone_is_not_found(scene: Scene) -> None:
    """A handle on an agent of another workspace's: ``not_found.agent``."""
    error = refused(scene, agent=Agent(scene.ws._context, "nobody"))
    assert (error.code, error.exit_code) == ("not_found.agent", 3)


@pytest.mark.contract("V-438")
def test_an_agent_without_a_repository_has_nothing_to_roll_back(tmp_path: Path) -> None:
    """No git repository in its scope: ``unsupported.checkpoint_no_repo``."""
    scene = Scene.in_place(tmp_path)
    error = refused(scene, agent=scene.ws.add_agent("b1", repos=[]))
    assert isinstance(error, Unsupported)
    assert error.code == "unsupported.checkpoint_no_repo"


def test_a_tree_that_is_missing_fails_before_anything_is_written(tmp_path: Path) -> None:
    """The worktree's folder is gone: ``failed.checkpoint_git`` says which, and only the repository's own files are left to look at."""
    scene = Scene.worktree(tmp_path)
    scene.changes({"README.md": "2\n"})
    shutil.rmtree(scene.tree.path)
    log = scene.log()
    with pytest.raises(Failed) as error:
        scene.plan("k1")
    assert error.value.code == "failed.checkpoint_git"
    assert str(scene.tree.path) in error.value.message
    assert scene.log() == log


# --- states of the agent ---------------------------------------------------------------------------------------------


@pytest.mark.contract("V-201", "V-373", "V-425")
@pytest.mark.parametrize("tree", ["there", "gone"])
def test_an_archived_agent_is_left_as_it_is(tmp_path: Path, tree: str) -> None:
    """``conflict.invalid_transition``, also when its worktree is gone; the checkpoints stay listed with their commits."""
    scene = Scene.worktree(tmp_path)
    scene.changes({"README.md": "2\n"})
    scene.agent.archive()
    if tree == "gone":
        shutil.rmtree(scene.tree.path)
    with pytest.raises(Conflict) as error:
        scene.plan("k1")
    assert error.value.code == "conflict.invalid_transition"
    listed = scene.agent.checkpoints().checkpoints
    held = scene.source.refs()
    assert [held["refs/venom/checkpoints/a2/" + row.checkpoint[1:]] for row in listed] == [
        row.repos[0]["commit"] for row in listed
    ]


@pytest.mark.contract("V-202", "V-203", "V-361", "V-362", "V-423", "V-424")
@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("handed_over", "conflict.handed_over"),
        ("queued", "conflict.turn_running"),
    ],
)
def test_a_live_agent_is_left_alone(scene: Scene, state: str, code: str) -> None:
    """Handed over, or about to run: the rollback waits for the agent and not the other way round."""
    scene.agent.set_state(state)
    error = refused(scene)
    assert (error.code, error.exit_code) == (code, 5)
    assert scene.agent.show().state == state


@pytest.mark.contract("V-203", "V-360")
def test_a_running_turn_is_not_interrupted(scene: Scene) -> None:
    """Running, and waiting for a person in a turn: refused; when the turn was stopped its end is a target."""
    turn = scene.turn()
    assert refused(scene).code == "conflict.turn_running"
    scene.agent.set_state("needs_you")
    assert refused(scene).code == "conflict.turn_running"
    assert scene.agent.show().state == "needs_you"
    scene.put({"src/main.py": "3\n"})
    turn.end("interrupted")
    scene.changes({"src/main.py": "4\n"})
    assert scene.back("k3").exact
    assert scene.tree.read("src/main.py") == b"3\n"


@pytest.mark.contract("V-305")
@pytest.mark.parametrize("reason", ["completed", "failed"])
def test_a_rollback_leaves_the_agents_state(tmp_path: Path, reason: str) -> None:
    """settled stays settled, failed stays failed, and the next turn begins from either."""
    scene = Scene.in_place(tmp_path)
    turn = scene.turn()
    scene.put({"src/main.py": "2\n"})
    turn.end(reason)
    state = scene.agent.show().state
    assert state == ("settled" if reason == "completed" else "failed")
    scene.back("k1")
    assert scene.agent.show().state == state
    with scene.turn() as following:
        assert following.id == "t2"


@pytest.mark.contract("V-206", "V-365", "V-428")
def test_stale_requests_come_first(scene: Scene) -> None:
    """The refusal names them; once there are none the rollback goes."""
    scene.agent.set_stale_requests(["r1", "r2"])
    error = refused(scene)
    assert error.code == "conflict.stale_requests"
    assert error.data == {"requests": ["r1", "r2"]}
    scene.agent.set_stale_requests([])
    assert scene.back("k1").exact


# --- others at work --------------------------------------------------------------------------------------------------


@contextmanager
def rolling(scene: Scene, plan: str) -> Iterator[Child]:
    """Another process in the middle of a rollback of the scene's agent; it ends well when the block is left."""
    with Child(ROLL, str(scene.source.path), str(scene.state_dir), scene.agent.id, plan) as child:
        assert child.hear() == "writing"
        yield child
        child.say("go on")
        while (said := child.hear()) == "writing":
            child.say("go on")
        assert said == "done"
        child.finish()


@pytest.mark.contract("V-204", "V-372", "V-426")
def test_a_second_rollback_waits_for_the_first(scene: Scene) -> None:
    """While one runs, the agent and a sharer of its tree are refused with ``rollback_running``; afterwards both may."""
    sharer = scene.ws.add_agent("b1")
    with sharer.turn():
        pass
    plan = scene.plan("k1", outside="overwrite").plan
    with rolling(scene, plan):
        for agent in (scene.agent, sharer):
            with pytest.raises(Conflict) as error:
                agent.rollback("k1", restore="files", outside="overwrite", dry_run=True)
            assert error.value.code == "conflict.rollback_running"
            assert error.value.data == {"agent": "a5"}
    assert sharer.rollback("k1", restore="files", outside="overwrite", dry_run=True).repos[0].files


@pytest.mark.contract("V-371")
def test_a_turn_waits_for_a_running_rollback(scene: Scene) -> None:
    """``begin_turn`` of the agent is refused meanwhile, with the agent named."""
    plan = scene.plan("k1", outside="overwrite").plan
    with rolling(scene, plan):
        with pytest.raises(Conflict) as error:
            scene.turn()
        assert error.value.code == "conflict.rollback_running"
        assert error.value.data == {"agent": "a5"}
    with scene.turn():
        pass


@pytest.mark.contract("V-205", "V-427")
def test_a_pending_capture_refuses(scene: Scene) -> None:
    """Another process takes a checkpoint of the agent: ``checkpoint_pending``, which a retry gets past."""
    with Child(CAPTURE, str(scene.source.path), str(scene.state_dir), "a5") as child:
        assert child.hear() == "capturing"
        assert refused(scene).code == "conflict.checkpoint_pending"
        assert scene.agent.checkpoints().pending
        child.say("go on")
        child.finish()
    assert scene.back("k1").exact


@pytest.mark.contract("V-207", "V-366", "V-429")
def test_a_live_descendant_refuses(tmp_path: Path) -> None:
    """A grandchild is at work in a tree of its own: ``live_children`` names it; settled ones are only listed."""
    scene = Scene.worktree(tmp_path)
    scene.ws.add_agent("c1", isolation="worktree", parent="a2")
    grandchild = scene.ws.add_agent("c2", isolation="worktree", parent="c1")
    scene.changes({"README.md": "2\n"})
    turn = grandchild.turn()
    error = refused(scene)
    assert error.code == "conflict.live_children"
    assert error.data == {"children": ["c2"]}
    turn.end()
    assert scene.plan("k1").children == ("c1", "c2")


@pytest.mark.contract("V-367", "V-399")
def test_settled_children_are_listed_and_left(tmp_path: Path) -> None:
    """Their trees stay as they are; an archived one isn't even listed."""
    scene = Scene.worktree(tmp_path)
    child = scene.ws.add_agent("c1", isolation="worktree", parent="a2")
    scene.ws.add_agent("c2", isolation="worktree", parent="a2").archive()
    tree = GitRepo(Path(child.show().trees[0]["path"]))
    with scene.turn(), child.turn():
        scene.put({"README.md": "2\n"})
        tree.write("README.md", "the child's\n")
    before = tree.snapshot_everything()
    done = scene.back("k1")
    assert done.children == ("c1",)
    assert tree.snapshot_everything().files == before.files


@pytest.mark.contract("V-208", "V-368", "V-430")
def test_a_live_sharer_refuses(scene: Scene) -> None:
    """Another agent runs in the same tree: ``tree_shared`` names it."""
    with scene.ws.add_agent("b1").turn():
        error = refused(scene)
        assert error.code == "conflict.tree_shared"
        assert error.data == {"agents": ["b1"]}
    assert scene.back("k1", outside="overwrite").exact


@pytest.mark.contract("V-033", "V-034", "V-369", "V-399")
def test_a_settled_sharer_makes_the_tree_guarded(tmp_path: Path) -> None:
    """A worktree that a second agent uses, under another spelling of its path, is guarded; archiving that agent lifts it."""
    scene = Scene.worktree(tmp_path)
    (tmp_path / "alias").symlink_to(scene.tree.path)
    scene.changes({"README.md": "2\n"})
    assert scene.plan("k1").guarded is False
    sharer = scene.ws.add_agent("b1", isolation="worktree", path=str(tmp_path / "alias"))
    plan = scene.plan("k1")
    assert plan.guarded is True
    assert plan.shared_with == ("b1",)
    sharer.archive()
    assert scene.plan("k1").guarded is False
    assert scene.plan("k1").shared_with == ()


# --- who calls -------------------------------------------------------------------------------------------------------


@pytest.fixture
def family(tmp_path: Path) -> Scene:
    """a2 in a worktree with a child c1 and a grandchild c2, a sibling b1 in a worktree of its own, and g1 in place; each had a turn."""
    scene = Scene.worktree(tmp_path)
    agents = [scene.agent]
    agents.append(scene.ws.add_agent("c1", isolation="worktree", parent="a2"))
    agents.append(scene.ws.add_agent("c2", isolation="worktree", parent="c1"))
    agents.append(scene.ws.add_agent("b1", isolation="worktree"))
    agents.append(scene.ws.add_agent("g1", parent="a2"))
    for agent in agents:
        with agent.turn():
            Path(agent.show().trees[0]["path"], "README.md").write_text("2\n")
    return scene


@pytest.mark.contract("V-195", "V-422", "V-451", "V-452", "V-453")
@pytest.mark.parametrize(
    ("caller", "target", "allowed"),
    [
        ("a2", "c1", True),
        ("a2", "c2", True),
        ("c1", "c2", True),
        ("a2", "b1", False),
        ("c1", "a2", False),
        ("c2", "c1", False),
        ("b1", "c2", False),
        ("a2", "a2", False),
        ("a2", "g1", False),
        ("nobody", "c2", False),
    ],
)
def test_an_agent_rolls_back_its_own_descendants_and_nobody_else(
    family: Scene, caller: str, target: str, allowed: bool
) -> None:
    """Children and grandchildren in trees of their own; not itself, not a sibling or parent, not a tree that a person works in. Dry runs go."""
    ws = family.ws.acting_as(Principal.agent(caller))
    agent = ws.agent(target)
    plan = agent.rollback("k1", restore="files", outside="keep", dry_run=True).plan
    if allowed:
        assert agent.rollback("k1", restore="files", outside="keep", plan=plan).safety == "k3"
        return
    log = family.log()
    with pytest.raises(Denied) as error:
        agent.rollback("k1", restore="files", outside="keep", plan=plan)
    assert (error.value.code, error.value.exit_code) == ("denied.agent_caller", 4)
    assert family.log() == log
    assert Path(agent.show().trees[0]["path"], "README.md").read_text() == "2\n"


@pytest.mark.contract("V-453")
def test_an_agent_that_asks_for_itself_hears_that_its_turn_runs(family: Scene) -> None:
    """It can only ask while its own turn runs, and that is the better answer."""
    with family.turn():
        asking = family.ws.acting_as(Principal.agent("a2")).agent("a2")
        with pytest.raises(Conflict) as error:
            asking.rollback("k1", restore="files", plan="p1-0123456789abcdef")
    assert error.value.code == "conflict.turn_running"
