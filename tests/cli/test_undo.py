"""``turnback undo`` and ``save`` at a terminal: what is shown, what is asked, and what the answers do."""

from __future__ import annotations

import shlex
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from turnback.cli.cmd_rollback import undisturbed

if TYPE_CHECKING:
    from cli.conftest import Story
    from support.command import Command
    from support.git_repo import GitRepo

DO = "Do this? [y/N] "
OUTSIDE = "Keep them as they are (default), overwrite them, or quit? [K/o/q] "


@pytest.mark.contract("V-473")
def test_the_plan_is_shown_before_the_question(command: Command, turns: Story) -> None:
    """Without a checkpoint it goes back to before the last turn; yes does what was shown."""
    with command.at_terminal("undo") as terminal:
        shown = terminal.answer(DO, "y")
        assert "Going back to k2 of a5 would:" in shown
        assert "restore    src/main.py" in shown
        assert "delete     gen/out.txt" in shown
        assert "the agent would be told with its next prompt" in shown
        assert "↺ Rolled back to k2 (after t1) · 2 files · files only · undo: k4" in terminal.end()
    assert turns.repo.read("src/main.py") == b"print('two')\n"
    assert not turns.repo.exists("gen")


@pytest.mark.parametrize("answer", ["n", "", "no"])
def test_anything_but_yes_changes_nothing(command: Command, turns: Story, answer: str) -> None:
    """The default is no; a word that is neither is asked again."""
    before = turns.repo.snapshot_everything()
    with command.at_terminal("undo", "k1") as terminal:
        terminal.answer(DO, "perhaps")
        assert "Please answer with one of: yes, no." in terminal.answer(DO, answer)
        assert "nothing was changed [conflict.not_confirmed]" in terminal.end(code=5)
    assert before.changes(turns.repo.snapshot_everything()) == []


@pytest.mark.contract("V-474")
def test_a_persons_edits_are_kept_by_default(command: Command, edited: Story) -> None:
    """The choice comes first, then the new plan, then the question."""
    with command.at_terminal("undo") as terminal:
        assert "README.md\n  notes/todo.md\n" in terminal.answer(OUTSIDE, "")
        shown = terminal.answer(DO, "yes")
        assert "README.md (changed outside the agent's turns, kept)" in shown
        terminal.end()
    assert edited.repo.read("README.md") == b"# my own words\n"
    assert edited.repo.read("src/main.py") == b"print('two')\n"


@pytest.mark.contract("V-474", "V-472")
def test_a_persons_edits_can_be_overwritten(command: Command, edited: Story) -> None:
    """They stand first in the plan and are marked; their bytes stay in the safety checkpoint."""
    with command.at_terminal("undo") as terminal:
        terminal.answer(OUTSIDE, "o")
        shown = terminal.answer(DO, "y")
        assert shown.index("! restore    README.md") < shown.index("src/main.py")
        assert "\x1b[33m" in shown, "what somebody else changed is marked in gold"
        terminal.end()
    assert edited.repo.read("README.md") == b"# a project\n"
    assert edited.repo.git("show", "refs/venom/checkpoints/a5/4:README.md") == b"# my own words\n"


def test_a_person_can_leave_at_either_question(command: Command, edited: Story) -> None:
    """Nothing has changed then, and the exit code says that nothing was done."""
    before = edited.repo.snapshot_everything()
    with command.at_terminal("undo") as terminal:
        terminal.answer(OUTSIDE, "quit")
        terminal.end(code=5)
    with command.at_terminal("undo", "--outside=keep") as terminal:
        terminal.answer(DO, "n")
        terminal.end(code=5)
    assert before.changes(edited.repo.snapshot_everything()) == []


def test_an_interrupt_at_the_question_ends_it_quietly(command: Command, turns: Story) -> None:
    """With 130; nothing has changed."""
    before = turns.repo.snapshot_everything()
    with command.at_terminal("undo") as terminal:
        terminal.until(DO)
        terminal.interrupt()
        assert terminal.end(code=130).strip() == ""
    assert before.changes(turns.repo.snapshot_everything()) == []


def test_nothing_disturbs_the_writing() -> None:
    """An interrupt and a closing terminal are ignored, by the programs started meanwhile too; afterwards they count again."""
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGHUP)]
    with undisturbed():
        for one in (signal.SIGINT, signal.SIGHUP):
            signal.raise_signal(one)
        script = "kill -INT $$; kill -HUP $$; echo alive"
        done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
        assert done.stdout == b"alive\n"
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGHUP)] == handlers


@pytest.mark.contract("V-473")
def test_a_plan_that_went_stale_is_shown_anew(command: Command, turns: Story) -> None:
    """A file saved while the question stands: the old plan is not carried out, and the new one is asked about."""
    with command.at_terminal("undo") as terminal:
        terminal.until(DO)
        turns.repo.write("gen/more.txt", "saved while you were reading\n")
        terminal.type("y")
        assert "The files have changed since that plan was made." in terminal.until("This is the new one:")
        assert "gen/more.txt" in terminal.answer(OUTSIDE, "k")
        terminal.answer(DO, "y")
        terminal.end()
    assert turns.repo.read("gen/more.txt") == b"saved while you were reading\n"
    assert turns.repo.read("src/main.py") == b"print('two')\n"


def test_undoing_again_goes_further_back_and_forward_again(command: Command, turns: Story) -> None:
    """Each undo goes to the next older state that differs; a named checkpoint brings back what was undone."""
    for checkpoint, text in (("k2", b"print('two')\n"), ("k1", b"print('one')\n")):
        with command.at_terminal("undo") as terminal:
            assert f"Going back to {checkpoint} of a5 would:" in terminal.answer(DO, "y")
            terminal.end()
        assert turns.repo.read("src/main.py") == text
    command.fails("not_found.checkpoint", 3, "undo")
    with command.at_terminal("undo", "k4") as terminal:
        terminal.answer(DO, "y")
        terminal.end()
    assert turns.repo.read("src/main.py") == b"print('three')\n"
    assert turns.repo.read("gen/out.txt") == b"made\n"


def test_undo_goes_through_saved_states_where_there_are_no_turns(command: Command, repo: GitRepo) -> None:
    """Somebody who only saves goes back one state at a time, and then from where they have saved anew."""

    def undo(checkpoint: str) -> bytes:
        with command.at_terminal("undo", "--outside=overwrite") as terminal:
            assert f"Going back to {checkpoint} of main would:" in terminal.answer(DO, "y")
            terminal.end()
        return repo.read("README.md")

    command("agent", "add", "main")
    for text in ("one", "two", "three"):
        repo.write("README.md", text)
        command("save", text)
    assert [undo("k2"), undo("k1")] == [b"two", b"one"]
    command.fails("not_found.checkpoint", 3, "undo")
    repo.write("README.md", "four")
    assert command.json("save", "four")["checkpoint"] == "k8"
    repo.write("README.md", "a mistake")
    assert undo("k8") == b"four"


def test_there_may_be_nothing_to_undo(command: Command, turns: Story) -> None:
    """The same state, or only a person's edits that are kept: said, and nothing is asked."""
    assert command("undo", "k3").out.endswith("There is nothing to undo.\n")
    turns.repo.write("mine.txt", "mine\n")
    assert command("undo", "k3", "--outside=keep").out.endswith("There is nothing to undo.\n")
    assert command.json("undo", "k3", "--outside=keep")["dry_run"] is True


@pytest.mark.contract("V-473", "V-499")
def test_without_a_terminal_it_refuses_and_says_how(command: Command, turns: Story) -> None:
    """The plan is on the output; the command in the error carries it out."""
    before = turns.repo.snapshot_everything()
    ran = command("undo", code=5)
    assert "restore    src/main.py" in ran.out
    assert before.changes(turns.repo.snapshot_everything()) == []
    error = command.fails("conflict.not_confirmed", 5, "undo")
    assert error["data"]["plan"]["checkpoint"] == "k2"
    line = ran.err.splitlines()[-1].strip()
    assert line == error["data"]["command"]
    command(*shlex.split(line)[1:])
    assert turns.repo.read("src/main.py") == b"print('two')\n"


def test_without_a_terminal_outside_edits_are_an_error(command: Command, edited: Story) -> None:
    """Nobody is there to choose."""
    command.fails("conflict.outside_edits", 5, "undo")
    assert "[conflict.outside_edits]" in command("undo", code=5).err


@pytest.mark.contract("V-423")
def test_a_running_turn_is_in_the_way(command: Command, turns: Story) -> None:
    """It is never interrupted for somebody."""
    turns.agent.begin_turn()
    command.fails("conflict.turn_running", 5, "undo", "k1")


def test_a_person_is_asked_which_agent(command: Command, turns: Story) -> None:
    """Until the name is one of them."""
    turns.workspace.add_agent("b6")
    with command.at_terminal("log") as terminal:
        terminal.answer("Which agent (a5, b6)? ", "c7")
        terminal.answer("Which agent (a5, b6)? ", "a5")
        assert "k3" in terminal.end()
    with command.at_terminal("log") as terminal:
        terminal.answer("Which agent (a5, b6)? ", "")
        terminal.end(code=2)


def test_saving_offers_to_begin(command: Command, repo: GitRepo) -> None:
    """In a repository where there is no agent yet; no is an answer too."""
    with command.at_terminal("save", "first") as terminal:
        assert "There is no agent in" in terminal.answer("[y/N] ", "n")
        terminal.end(code=3)
    assert command.json("agent", "list") == {"agents": []}
    with command.at_terminal("save", "first") as terminal:
        terminal.answer("[y/N] ", "y")
        assert "saved as k1 of main" in terminal.end()
    repo.write("README.md", "# worse\n")
    with command.at_terminal("undo") as terminal:
        terminal.answer(OUTSIDE, "o")
        terminal.answer(DO, "y")
        terminal.end()
    assert repo.read("README.md") == b"# a project\n"


def test_colours_only_where_they_are_wanted(command: Command, turns: Story) -> None:
    """At a terminal, unless it or the person says no."""
    with command.at_terminal("diff") as terminal:
        assert "\x1b[31m-print('two')\x1b[0m" in terminal.end()
    for no in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        with command.at_terminal("diff", also=no) as terminal:
            assert "\x1b" not in terminal.end()


def test_names_and_content_never_reach_the_terminal_raw(command: Command, turns: Story) -> None:
    """An escape sequence in a name, a label or a file is shown and not obeyed."""
    evil = "\x1b]0;owned\x07\u202e"
    turns.repo.write(f"gen/{evil}.txt", f"{evil}\n")
    turns.repo.write(b"gen/caf\xe9", "x\n")
    turns.agent.checkpoint(label=evil)
    for words in (
        ["log"],
        ["diff", "k1"],
        ["events"],
        ["agent", "show", "a5"],
        ["undo", "k1", "--outside=overwrite"],
    ):
        with command.at_terminal(*words, also={"NO_COLOR": "1"}) as terminal:
            if words[0] == "undo":
                shown = terminal.answer(DO, "n")
                terminal.end(code=5)
                assert "caf\\xe9" in shown
                assert "\\x1b]0;owned\\x07\\u202e.txt" in shown
            else:
                terminal.end()
            assert "\x1b" not in terminal.output, words
            assert "\x07" not in terminal.output, words
            assert "\u202e" not in terminal.output, words
