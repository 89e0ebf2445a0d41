"""``turnback agent rollback``: the two calls, their JSON, and every way to get them wrong."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.git_repo import GitRepo

if TYPE_CHECKING:
    from cli.conftest import Story
    from support.command import Command

BACK = ("agent", "rollback", "--agent=a5", "--checkpoint=k2", "--restore=files")


@pytest.mark.contract("V-024", "V-025", "V-435")
def test_a_persons_edits_are_in_the_way_until_somebody_chooses(command: Command, edited: Story) -> None:
    """The golden error of the contract: its sentence, its code, its data, its exit code; nothing has changed."""
    before = edited.repo.snapshot_everything()
    ran = command("--json", *BACK, "--dry-run=true", code=5)
    assert ran.json() == {
        "error": {
            "code": "conflict.outside_edits",
            "message": "2 paths changed outside the agent's turns; choose --outside=keep or --outside=overwrite",
            "data": {"repos": [{"repo": ".", "paths": ["README.md", "notes/todo.md"]}]},
        }
    }
    said = command(*BACK, "--dry-run", code=5)
    assert said.out == ""
    assert said.err.endswith("[conflict.outside_edits]\n  README.md\n  notes/todo.md\n")
    assert before.changes(edited.repo.snapshot_everything()) == []


@pytest.mark.contract("V-015", "V-017", "V-027", "V-028", "V-398", "V-026", "V-417")
def test_a_dry_run_gives_a_plan_and_changes_nothing(command: Command, edited: Story) -> None:
    """The golden result of the contract, with the choice made."""
    before = edited.repo.snapshot_everything()
    log = Path(edited.workspace.state_dir, "log.ndjson").read_bytes()
    head = edited.repo.text("rev-parse", "HEAD")
    plan = command.json(*BACK, "--outside=keep", "--dry-run=true")
    assert re.fullmatch(r"p1-[0-9a-f]{16}", plan.pop("plan"))
    assert list(plan) == [
        "agent", "checkpoint", "dry_run", "restore", "guarded", "conversation", "shared_with", "children", "repos",
    ]  # fmt: skip
    assert plan == {
        "agent": "a5",
        "checkpoint": "k2",
        "dry_run": True,
        "restore": "files",
        "guarded": True,
        "conversation": {"rewinds": False, "through_turn": "t1", "drops": []},
        "shared_with": [],
        "children": [],
        "repos": [
            {
                "repo": ".",
                "path": str(edited.repo.path.resolve()),
                "head": {"moves": False, "from": head, "to": head, "commits": 0},
                "files": [
                    {"path": "gen/out.txt", "change": "delete", "class": "turn"},
                    {"path": "src/main.py", "change": "modify", "class": "agent"},
                ],
                "left": [
                    {"path": "README.md", "reason": "outside"},
                    {"path": "notes/todo.md", "reason": "outside"},
                ],
                "ignored_edits": [],
            }
        ],
    }
    assert before.changes(edited.repo.snapshot_everything()) == []
    assert Path(edited.workspace.state_dir, "log.ndjson").read_bytes() == log


@pytest.mark.contract("V-016", "V-018", "V-398")
def test_the_real_call_quotes_the_plan_and_does_it(command: Command, edited: Story) -> None:
    """Its result names the checkpoints that it made; the person's files are as they were."""
    plan = command.json(*BACK, "--outside=keep", "--dry-run")
    done = command.json(*BACK, "--outside", "keep", f"--plan={plan['plan']}")
    assert list(done) == [
        "agent", "checkpoint", "dry_run", "restore", "safety", "after", "exact", "conversation", "shared_with",
        "children", "repos",
    ]  # fmt: skip
    assert (done["dry_run"], done["safety"], done["after"], done["exact"]) == (False, "k4", "k5", True)
    assert done["repos"] == plan["repos"]
    repo = edited.repo
    assert repo.read("src/main.py") == b"print('two')\n"
    assert not repo.exists("gen")
    assert repo.read("README.md") == b"# my own words\n"
    assert repo.read("notes/todo.md") == b"call mum\n"


@pytest.mark.contract("V-019", "V-007")
def test_a_rollback_can_be_rolled_back(command: Command, edited: Story) -> None:
    """Overwriting a person's edits loses nothing: the safety checkpoint has every byte."""
    plan = command.json(*BACK, "--outside=overwrite", "--dry-run")
    command(*BACK, "--outside=overwrite", f"--plan={plan['plan']}")
    assert edited.repo.read("README.md") == b"# a project\n"
    assert not edited.repo.exists("notes")
    again = ("agent", "rollback", "--agent=a5", "--checkpoint=k4", "--restore=files")
    plan = command.json(*again, "--dry-run")
    command(*again, f"--plan={plan['plan']}")
    assert edited.repo.read("README.md") == b"# my own words\n"
    assert edited.repo.read("notes/todo.md") == b"call mum\n"
    assert edited.repo.read("src/main.py") == b"print('three')\n"


@pytest.mark.contract("V-397", "V-421", "V-016", "V-499")
def test_a_dry_run_or_a_plan_and_never_both_or_neither(command: Command, turns: Story) -> None:
    """The four combinations; an option that says yes does not exist."""
    plan = command.json(*BACK, "--dry-run")["plan"]
    fails = command.fails
    fails("invalid_params.plan", 2, *BACK)
    fails("invalid_params.plan", 2, *BACK, "--dry-run=false")
    fails("invalid_params.plan", 2, *BACK, "--dry-run=true", f"--plan={plan}")
    fails("invalid_params.plan", 2, *BACK, "--plan=yes")
    fails("invalid_params.yes", 2, *BACK, "--yes")
    fails("invalid_params.yes", 2, "undo", "--yes")
    fails("invalid_params.y", 2, "undo", "-y")
    assert turns.repo.read("src/main.py") == b"print('three')\n"
    command(*BACK, f"--plan={plan}", "--dry-run=false")
    assert turns.repo.read("src/main.py") == b"print('two')\n"


@pytest.mark.contract("V-436")
def test_a_plan_is_for_one_state_only(command: Command, turns: Story) -> None:
    """A file saved after the dry run, or another choice, makes it stale; nothing has changed then."""
    plan = command.json(*BACK, "--dry-run")["plan"]
    fails = command.fails
    fails("conflict.rollback_stale", 5, *BACK, "--outside=overwrite", f"--plan={plan}")
    turns.repo.write("src/main.py", "print('saved just now')\n")
    error = fails("conflict.rollback_stale", 5, *BACK, "--outside=overwrite", f"--plan={plan}")
    assert error["data"] == {"checkpoint": "k2"}
    assert turns.repo.read("src/main.py") == b"print('saved just now')\n"
    assert len(command.json("log")["checkpoints"]) == 3


@pytest.mark.contract("V-396")
def test_choices_are_checked(command: Command, turns: Story) -> None:
    """A word that is no choice is refused and named."""
    fails = command.fails
    fails("invalid_params.restore", 2, *BACK[:-1], "--restore=everything", "--dry-run")
    fails("invalid_params.outside", 2, *BACK, "--outside=maybe", "--dry-run")
    fails("invalid_params.keep_head", 2, *BACK, "--keep-head=perhaps", "--dry-run")
    fails("invalid_params.dry_run", 2, *BACK, "--dry-run=perhaps")
    fails("invalid_params.checkpoint", 2, *BACK[:3], "--restore=files", "--dry-run")
    fails("invalid_params.checkpoint", 2, "agent", "rollback", "--agent=a5", "--checkpoint=HEAD", "--dry-run")
    fails("not_found.agent", 3, "agent", "rollback", "--agent=b1", "--checkpoint=k1", "--dry-run")
    gone = fails("not_found.checkpoint", 3, "agent", "rollback", "--agent=a5", "--checkpoint=k9", "--dry-run")
    assert gone["data"] == {"checkpoint": "k9"}


@pytest.mark.contract("V-437", "V-475")
def test_without_a_harness_the_conversation_cannot_go_back(command: Command, turns: Story) -> None:
    """``restore=all`` is refused, and the way out is named."""
    error = command.fails("unsupported.harness_capability", 10, *BACK[:-1], "--dry-run")
    assert "--restore=files" in error["data"]["fix"]
    assert "--restore=files" in command(*BACK[:-1], "--dry-run", code=10).err


@pytest.mark.contract("V-422", "V-451", "V-452")
def test_an_agent_may_look_but_not_roll_back_where_a_person_works(command: Command, edited: Story) -> None:
    """Whoever the command acts for comes from its environment; no option can say otherwise."""
    edited.workspace.add_agent("boss")
    acting = {"TURNBACK_PRINCIPAL": "agent:boss"}
    for outside in ("--outside=keep", "--outside=overwrite"):
        plan = command.json(*BACK, outside, "--dry-run", also=acting)["plan"]
        command.fails("denied.agent_caller", 4, *BACK, outside, f"--plan={plan}", also=acting)
    command.fails("invalid_params.principal", 2, "log", also={"TURNBACK_PRINCIPAL": "root"})
    command.fails("invalid_params.principal", 2, *BACK, "--principal=person", f"--plan={plan}", also=acting)
    assert edited.repo.read("src/main.py") == b"print('three')\n"
    command(*BACK, "--outside=overwrite", f"--plan={plan}", also={"TURNBACK_PRINCIPAL": "person"})


def test_the_text_of_a_plan_ends_with_the_command_that_does_it(command: Command, edited: Story) -> None:
    """It can be pasted as it stands, with the global options of the dry run, and it does what was shown."""
    state = edited.workspace.state_dir
    shown = command("--workspace=.", "--state-dir", state, *BACK, "--outside=keep", "--dry-run").out
    assert "Nothing has changed yet." in shown
    line = shown.splitlines()[-1].strip()
    words = shlex.split(line)
    assert words[:4] == ["turnback", "--workspace=.", f"--state-dir={state}", "agent"]
    done = command(*words[1:]).out
    assert done.startswith("↺ Rolled back to k2 (after t1) · 2 files · files only · undo: k4\n")
    assert edited.repo.read("src/main.py") == b"print('two')\n"


def test_commands_move_head_back_in_a_folder_of_the_agents_own(command: Command, turns: Story) -> None:
    """In a worktree a commit of the agent is dropped, and said; ``--keep-head`` leaves it."""
    agent = turns.workspace.add_agent("w1", isolation="worktree")
    tree = GitRepo(Path(agent.show().trees[0]["path"]))
    with agent.turn():
        tree.write("src/main.py", "print('from the worktree')\n")
        tree.commit("by the agent")
    back = ("agent", "rollback", "--agent=w1", "--checkpoint=k1", "--restore=files")
    kept = command.json(*back, "--keep-head", "--dry-run")
    assert kept["guarded"] is False
    assert kept["repos"][0]["head"]["moves"] is False
    plan = command.json(*back, "--dry-run")
    assert plan["repos"][0]["head"]["commits"] == 1
    assert "HEAD moves back from" in command(*back, "--dry-run").out
    done = command(*back, f"--plan={plan['plan']}").out
    assert "1 commit after it stays reachable from the safety checkpoint" in done
    assert tree.text("log", "--format=%s") == "first"
    assert tree.text("status", "--porcelain") == ""
