"""Files and conversation go back together or not at all; and when only the files do, the model is told (section 8)."""

from pathlib import Path
from typing import Any

import pytest

from support.rollbacks import Rewinds, Scene
from turnback.errors import Conflict, TimedOut, TurnbackError, Unsupported

NOTE = (
    "Note: the files were rolled back to their state {when}. Changes made after that point are gone, and what you remember of them "
    "may no longer be true. Read the files before you rely on them."
)


def turns(scene: Scene, number: int) -> None:
    """Turns that each change a file and end with the id of a message."""
    for _ in range(number):
        turn = scene.turn()
        scene.put({"src/main.py": f"{turn.id}\n"})
        turn.end(harness_end=f"end-{turn.id}")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """An agent in place whose harness can rewind, with three turns behind it: k1 before them, k2 to k4 after each."""
    made = Scene.in_place(tmp_path, harness=Rewinds())
    turns(made, 3)
    return made


def asked(scene: Scene) -> list[dict[str, Any]]:
    assert isinstance(scene.agent.harness, Rewinds)
    return scene.agent.harness.asked


# --- with the conversation -------------------------------------------------------------------------------------------


@pytest.mark.contract("V-255", "V-317", "V-341")
def test_the_harness_is_asked_once_with_the_turns_own_ids(scene: Scene) -> None:
    """Two turns are dropped: one rewind through t1, and the agent's binding names the copy."""
    done = scene.back("k2", restore="all")
    assert asked(scene) == [{"session": None, "through_turn": "t1", "harness_end": "end-t1"}]
    assert done.conversation.to_dict() == {
        "rewinds": True,
        "through_turn": "t1",
        "drops": ["t2", "t3"],
        "harness_session": "copy-1",
    }
    shown = scene.agent.show()
    assert shown.binding is not None
    assert shown.binding["harness_session"] == "copy-1"
    assert [row["dropped"] for row in shown.turns] == [False, True, True]
    assert shown.note is None, "the model remembers nothing that isn't true any more"


@pytest.mark.contract("V-255", "V-315")
def test_the_latest_turn_needs_no_rewind(tmp_path: Path) -> None:
    """Nothing to drop: works with any harness, asks it nothing, leaves the binding."""
    scene = Scene.in_place(tmp_path)
    turns(scene, 1)
    scene.put({"src/main.py": "a person's\n"})
    done = scene.back("k2", restore="all", outside="overwrite")
    assert done.conversation.to_dict() == {"rewinds": False, "through_turn": "t1", "drops": []}
    assert scene.agent.show().binding is None
    assert scene.tree.read("src/main.py") == b"t1\n"


@pytest.mark.contract("V-316")
def test_before_the_first_turn_there_is_no_conversation(tmp_path: Path) -> None:
    """Works with any harness: the binding is cleared, so the next prompt starts a new conversation."""
    scene = Scene.in_place(tmp_path)
    turns(scene, 2)
    done = scene.back("k1", restore="all")
    assert done.conversation.to_dict() == {"rewinds": True, "through_turn": None, "drops": ["t1", "t2"]}
    binding = scene.agent.show().binding
    assert binding is not None
    assert binding["harness_session"] is None


@pytest.mark.contract("V-318", "V-437")
def test_a_harness_that_cannot_rewind_refuses(tmp_path: Path) -> None:
    """``unsupported.harness_capability`` with the way out; nothing has changed, and that way works."""
    scene = Scene.in_place(tmp_path)
    turns(scene, 2)
    before = scene.tree.snapshot_everything(), scene.log()
    with pytest.raises(Unsupported) as error:
        scene.plan("k2", restore="all")
    assert error.value.code == "unsupported.harness_capability"
    assert error.value.data == {"fix": "--restore=files"}
    assert (scene.tree.snapshot_everything(), scene.log()) == before
    assert scene.back("k2").exact


@pytest.mark.contract("V-319", "V-432")
def test_a_checkpoint_without_a_point_in_the_conversation_refuses(scene: Scene) -> None:
    """Taken in the middle of a turn: ``checkpoint_files_only`` says why; its files can be had."""
    turn = scene.turn()
    scene.put({"src/main.py": "half\n"})
    middle = scene.agent.checkpoint().checkpoint
    scene.put({"src/main.py": "whole\n"})
    turn.end(harness_end="end-4")
    with pytest.raises(Conflict) as error:
        scene.plan(middle, restore="all")
    assert error.value.code == "conflict.checkpoint_files_only"
    assert error.value.data == {"why": "mid_turn"}
    assert scene.back(middle).exact
    assert scene.tree.read("src/main.py") == b"half\n"


@pytest.mark.contract("V-340", "V-344")
def test_going_forward_again_brings_the_files_alone(scene: Scene) -> None:
    """The dropped turns' checkpoints keep their files and lose their conversation; turn numbers go on."""
    scene.back("k2", restore="all")
    listed = {row.checkpoint: row.conversation for row in scene.agent.checkpoints().checkpoints}
    assert (listed["k2"], listed["k3"], listed["k4"]) == (True, False, False)
    with pytest.raises(Conflict) as error:
        scene.plan("k4", restore="all")
    assert error.value.data == {"why": "dropped_turn"}
    assert scene.back("k4").exact
    assert scene.tree.read("src/main.py") == b"t3\n"
    with scene.turn() as following:
        assert following.id == "t4"


# --- or not at all ---------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-043", "V-255")
@pytest.mark.parametrize("kind", [TimedOut, RuntimeError])
def test_a_harness_that_fails_ends_it_with_no_file_touched(scene: Scene, kind: type[Exception]) -> None:
    """Its own error comes out as it is; the files, the binding and the turns are as before, and the log has the end."""
    error = (
        TimedOut("harness_request", "the harness did not answer")
        if kind is TimedOut
        else RuntimeError("a bug")
    )
    scene.agent.harness = Rewinds(error=error)
    before = scene.tree.snapshot_everything().files
    with pytest.raises(kind) as raised:
        scene.back("k2", restore="all")
    assert raised.value is error
    assert scene.tree.snapshot_everything().files == before
    shown = scene.agent.show()
    assert shown.binding is None
    assert not any(row["dropped"] for row in shown.turns)
    ended = scene.events("agent.rollback_ended")[-1]["data"]
    assert ended["ok"] is False
    assert ended["code"] == ("timeout.harness_request" if kind is TimedOut else "failed.rollback_undone")
    with scene.turn():
        pass


@pytest.mark.contract("V-043", "V-304")
def test_files_that_fail_leave_the_conversation(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy was made and the files then failed: nothing refers to it."""

    def full(*_: Any) -> bool:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("turnback.operations.apply.exchange", full)
        with pytest.raises(TurnbackError) as error:
            scene.back("k2", restore="all")
    assert error.value.code == "failed.rollback_undone"
    assert len(asked(scene)) == 1
    assert scene.agent.show().binding is None
    assert b"copy-1" not in scene.log()


# --- told ------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-346", "V-348", "V-349")
def test_the_next_prompt_begins_with_the_note_once(scene: Scene) -> None:
    """After files alone went back: the note stands before the next prompt, is part of what is recorded, and then is gone."""
    scene.back("k3")
    note = NOTE.format(when="after turn t2")
    turn = scene.turn("go on")
    assert turn.prompt == f"{note}\n\ngo on"
    assert scene.agent.show().turns[-1]["prompt"] == turn.prompt
    turn.end()
    with scene.turn("and on") as following:
        assert following.prompt == "and on"


@pytest.mark.contract("V-350")
def test_the_note_before_the_first_turn(scene: Scene) -> None:
    """It names the time before the first turn."""
    scene.back("k1")
    assert scene.agent.show().note == NOTE.format(when="before your first turn")


@pytest.mark.contract("V-347", "V-369")
@pytest.mark.parametrize("restore", ["files", "all"])
def test_every_sharer_is_told(scene: Scene, restore: str) -> None:
    """Agents that use the same tree get the note with their next prompt, once; the agent itself only when its memory stayed."""
    sharers = [scene.ws.add_agent("b1"), scene.ws.add_agent("b2")]
    scene.ws.add_agent("b3").archive()
    done = scene.back("k2", restore=restore, outside="overwrite")
    assert done.shared_with == ("b1", "b2")
    note = NOTE.format(when="after turn t1")
    for agent in sharers:
        with agent.turn("go on") as turn:
            assert turn.prompt == f"{note}\n\ngo on"
        with agent.turn("go on") as turn:
            assert turn.prompt == "go on"
    assert scene.ws.agent("b3").show().note is None
    assert scene.agent.show().note == (note if restore == "files" else None)


def test_a_second_rollback_replaces_the_note(scene: Scene) -> None:
    """Only the last one is told."""
    scene.back("k3")
    scene.back("k2")
    assert scene.agent.show().note == NOTE.format(when="after turn t1")


def test_the_note_is_the_configured_one(scene: Scene) -> None:
    """Its text is a setting, with the time filled in."""
    scene.reopen(config={"checkpoints": {"rollback_note": "Look again, {when} {x}."}})
    scene.back("k2")
    assert scene.agent.show().note == "Look again, after turn t1 {x}."
