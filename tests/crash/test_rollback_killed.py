"""The process is killed before each write of a rollback: no byte is lost, the next open says so, and the safety checkpoint has everything."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from support.children import Child
from support.command import Command
from support.rollbacks import Scene
from support.stands import Before, Stand, in_place, lost, worktree

# Carries the plan out in a process of its own for each number it hears, and kills that one before its n-th write. It adopts what the killed one
# started, so that nothing of it runs any more when the answer comes.
KILLER = """
import ctypes
import pygit2
from support.faults import Faults
from turnback import Workspace

folder, state, agent, plan = sys.argv[1:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)

def roll(number):
    handle = Workspace.open(folder, state_dir=state).agent(agent)
    with Faults.kill_at(number):
        handle.rollback("k1", restore="files", plan=plan)

while order := hear():
    pid = os.fork()
    if pid == 0:
        try:
            roll(int(order))
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    say("killed" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}")
"""

# Every write in CI; a plain run takes every fifth.
STEPS = [pytest.param(5, id="every fifth"), pytest.param(1, id="every one", marks=pytest.mark.explore)]


@pytest.fixture(params=[in_place, worktree], ids=["in_place", "worktree"])
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Stand:
    build: Callable[[Path], Scene] = request.param
    return Stand(build(tmp_path / "all"))


def killed(stand: Stand, step: int) -> Iterator[tuple[str, Before]]:
    """Kill a rollback before its first write, its second, and so on until it gets through; each time where, and what was there before."""
    scene = stand.scene
    with Child(KILLER, str(scene.source.path), str(scene.state_dir), scene.agent.id, stand.plan) as child:
        for number in count(1, step):
            before = stand.begin()
            child.say(str(number))
            said = child.hear()
            if said != "killed":
                assert said == "ended 0"
                assert number > 60, "the writes were not where they should be"
                return
            yield f"killed before write {number}", before


@pytest.mark.contract("V-039", "V-250", "V-302", "V-303")
@pytest.mark.parametrize("step", STEPS)
def test_no_kill_loses_a_byte_and_the_way_back_is_whole(stand: Stand, step: int) -> None:
    """After each kill every byte is still somewhere, git finds nothing wrong, opening touches no file, and going to the safety checkpoint works."""
    scene = stand.scene
    began = 0
    for where, before in killed(stand, step):
        after = Before.of(stand)
        assert lost(stand, before) == set(), where
        scene.tree.git("fsck", "--strict", "--no-dangling")
        scene.reopen()
        assert Before.of(stand).files == after.files, f"{where}: opening touches no file"
        assert leftovers(stand) == [], where
        starts, ends = scene.events("agent.rollback_started"), scene.events("agent.rollback_ended")
        assert len(starts) == len(ends), where
        if not starts:
            assert after == before, f"{where}: nothing is written before the log says so"
            continue
        began += 1
        if ends[-1]["data"]["ok"]:
            continue  # killed while it put things away
        assert ends[-1]["data"]["code"] == "failed.rollback_interrupted", where
        safety = starts[-1]["data"]["safety"]
        attention = scene.ws._context.state().agents[scene.agent.id].attention[-1]
        assert attention["kind"] == "review"
        assert safety in attention["reason"], where
        assert scene.agent.show().cut_off == {"checkpoint": "k1", "safety": safety}, where
        assert scene.back(safety, outside="overwrite", keep_head=True).exact, where
        assert scene.agent.show().cut_off is None, where
        assert scene.contents() == before.contents(), where
        assert hidden(stand) == [], where
    assert began > 60 / step / 2


@pytest.mark.contract("V-303")
def test_a_person_is_told_first(stand: Stand) -> None:
    """By the list, by the agent's description and by undo, with the command that goes back; until the agent works on."""
    scene = stand.scene
    command = Command(scene.source.path, {})
    state = f"--state-dir={scene.state_dir}"
    stand.begin()
    with Child(KILLER, str(scene.source.path), str(scene.state_dir), scene.agent.id, stand.plan) as child:
        child.say("95")
        assert child.hear() == "killed"
    words = f"The rollback of {scene.agent.id} to k1 was cut off"
    way = f"turnback {state} undo --agent={scene.agent.id} k"
    for verb in (["log", f"--agent={scene.agent.id}"], ["agent", "show", scene.agent.id]):
        out = command(state, *verb).out
        assert words in out
        assert way in out
    safety = scene.events("agent.rollback_started")[-1]["data"]["safety"]
    back = [state, "undo", f"--agent={scene.agent.id}", "--outside=overwrite", "--keep-head", safety]
    scene.tree.write("later.txt", "so that something differs, wherever it was killed\n")
    assert words in command(*back, code=5).out
    scene.reopen()
    with scene.agent.turn():
        pass
    assert words not in command(state, "log", f"--agent={scene.agent.id}").out


def leftovers(stand: Stand) -> list[str]:
    """What lies in the git folder and in the state folder and shouldn't."""
    found = [name for name in os.listdir(stand.git_dir) if "lock" in name or "turnback" in name]
    found += [str(place) for place in (stand.scene.source.path / ".git" / "refs").rglob("*.lock")]
    return found


def hidden(stand: Stand) -> list[str]:
    """Hidden files of ours in the tree, and notes of them."""
    return [str(place) for place in stand.scene.tree.path.rglob(".turnback*")] + os.listdir(
        stand.scene.state_dir / "holding"
    )


@pytest.mark.contract("V-302")
def test_who_never_opened_again_finds_out_too(stand: Stand) -> None:
    """A process that was there all the time: its next turn and its next rollback record the interruption and go on."""
    scene = stand.scene
    with Child(KILLER, str(scene.source.path), str(scene.state_dir), scene.agent.id, stand.plan) as child:
        for verb in ("turn", "rollback"):
            before = stand.begin()
            child.say("95")
            assert child.hear() == "killed"
            assert len(scene.events("agent.rollback_started")) == 1
            if verb == "turn":
                with scene.turn():
                    pass
            else:
                safety = scene.events("agent.rollback_started")[-1]["data"]["safety"]
                scene.back(safety, outside="overwrite", keep_head=True)
                assert scene.contents() == before.contents()
            codes = [event["data"].get("code") for event in scene.events("agent.rollback_ended")]
            assert codes[0] == "failed.rollback_interrupted"


# Waits before the exchange of one file, and is gone right after it.
STRUCK = """
from turnback import Workspace
from turnback.operations import apply
folder, state, plan = sys.argv[1:]
real = apply.exchange
def struck(from_folder, from_name, to_folder, to_name):
    if to_name != b"f":
        return real(from_folder, from_name, to_folder, to_name)
    say("now")
    hear()
    real(from_folder, from_name, to_folder, to_name)
    os.kill(os.getpid(), 9)
apply.exchange = struck
Workspace.open(folder, state_dir=state).agent("a5").rollback("k1", restore="files", plan=plan)
"""


def struck(scene: Scene, save: str | None) -> None:
    """Kill a rollback right after it exchanged ``f``, into which somebody saved just before."""
    plan = scene.plan("k1").plan
    with Child(STRUCK, str(scene.source.path), str(scene.state_dir), plan) as child:
        assert child.hear() == "now"
        if save is not None:
            beside = scene.tree.write("f.swp", save)
            beside.rename(scene.tree.at("f"))
        child.say("go on")
        assert child.process.wait() == -9


def test_a_save_that_was_in_our_hands_at_the_kill_is_kept_and_told(tmp_path: Path) -> None:
    """It came out of the exchange and nobody looked at it any more: the next open finds that no checkpoint holds it, keeps it and says so."""
    scene = Scene.in_place(tmp_path, {"f": "then\n", "g": "then\n"})
    scene.changes({"f": "now\n", "g": "now\n"})
    struck(scene, "saved\n")
    before = scene.files()
    scene.reopen()
    assert scene.files() == before
    told = scene.ws._context.state().agents["a5"].attention
    assert [row["kind"] for row in told] == ["review", "review"]
    (kept,) = told[1]["kept"]
    assert kept["path"] == "f"
    assert scene.pool(kept["sha256"]) == b"saved\n"
    assert leftovers_of(scene) == []
    scene.back("k3", outside="overwrite")
    assert scene.tree.read("f") == b"now\n"


def test_a_safety_checkpoint_that_is_gone_lets_nothing_go(tmp_path: Path) -> None:
    """Its ref was deleted after the kill: what waits is no longer known to be anywhere else, so all of it is kept."""
    scene = Scene.in_place(tmp_path, {"f": "then\n"})
    scene.changes({"f": "now\n"})
    struck(scene, None)
    scene.tree.git("update-ref", "-d", "refs/venom/checkpoints/a5/3")
    scene.reopen()
    (kept,) = scene.ws._context.state().agents["a5"].attention[1]["kept"]
    assert scene.pool(kept["sha256"]) == b"now\n"


def test_hidden_files_in_the_tree_wait_for_the_next_rollback(tmp_path: Path) -> None:
    """The git folder is elsewhere, so files wait in the tree: opening leaves them, captures overlook them, a rollback puts them away."""
    scene = Scene.in_place(tmp_path, {"f": "then\n", "g": "then\n"})
    (scene.tree.git_dir / "turnback").write_text("in the way\n")
    scene.changes({"f": "now\n", "g": "now\n"})
    struck(scene, "saved\n")
    before = scene.files()
    assert [name for name in before if name.startswith(b".turnback-tmp-")]
    scene.reopen()
    assert scene.files() == before
    assert len(scene.ws._context.state().agents["a5"].attention) == 1
    done = scene.back("k3", outside="overwrite")
    assert done.exact
    assert not [name for name in scene.files() if name.startswith(b".turnback-tmp-")]
    assert scene.tree.read("f") == b"now\n"
    (kept,) = scene.ws._context.state().agents["a5"].attention[1]["kept"]
    assert scene.pool(kept["sha256"]) == b"saved\n"


def leftovers_of(scene: Scene) -> list[str]:
    """Notes of waiting files, and the folder in the git dir."""
    found = os.listdir(scene.state_dir / "holding")
    return found + [
        name for name in os.listdir(scene.tree.git_dir) if "turnback" in name or name.endswith(".lock")
    ]
