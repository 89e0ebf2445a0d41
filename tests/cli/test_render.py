"""Text for people, from the JSON members alone: order, marks, words, and names that can't harm a terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest

from turnback.cli.render import age, count, path_text, table, visible, width
from turnback.cli.render_plan import done_lines, is_empty, plan_lines
from turnback.cli.terminal import Terminal


@pytest.fixture
def plain() -> Terminal:
    """A terminal without styles."""
    return Terminal(io.StringIO(), io.StringIO(), io.StringIO())


@pytest.fixture
def coloured() -> Terminal:
    """A terminal with them."""
    return Terminal(io.StringIO(), io.StringIO(), io.StringIO(), tty=True, color=True)


def a_plan(**members: Any) -> dict[str, Any]:
    """A dry run's result with a bit of everything in it."""
    repo = {
        "repo": ".",
        "path": "/home/u/app",
        "head": {"moves": True, "from": "a" * 40, "to": "b" * 40, "commits": 2},
        "files": [
            {"path": "gen/out.txt", "change": "delete", "class": "turn"},
            {"path": "README.md", "change": "modify", "class": "outside"},
            {"path": "src/main.py", "change": "create", "class": "agent"},
        ],
        "left": [
            {"path": "big.bin", "reason": "too_big"},
            {"path": "lib", "reason": "gitlink", "detail": "c" * 40},
        ],
        "ignored_edits": [".env"],
    }
    plan = {
        "agent": "a2",
        "checkpoint": "k2",
        "dry_run": True,
        "plan": "p1-0123456789abcdef",
        "restore": "all",
        "guarded": False,
        "conversation": {"rewinds": True, "through_turn": "t1", "drops": ["t2", "t3"]},
        "shared_with": ["a7"],
        "children": ["a8"],
        "repos": [repo],
    }
    return {**plan, **members}


@pytest.mark.contract("V-472")
def test_a_plan_tells_outside_first_then_files_left_head_and_conversation(plain: Terminal) -> None:
    """The order is the contract's; what somebody else changed is marked."""
    assert list(plan_lines(a_plan(), plain)) == [
        "Going back to k2 of a2 would:",
        "  changed outside the agent's turns, perhaps your own work:",
        "  ! restore    README.md",
        "  named by an edit of the agent:",
        "    make again src/main.py",
        "  changed while a turn of the agent ran:",
        "    delete     gen/out.txt",
        "  left as it is:",
        "    big.bin (too big to be saved)",
        f"    lib (a repository of its own, {'c' * 40})",
        "  edited by the agent but ignored, so it can't be restored:",
        "    .env",
        "  HEAD moves back from aaaaaaaaaaaa to bbbbbbbbbbbb; 2 commits after it stay reachable from the safety checkpoint",
        "  the conversation goes back to the end of t1; dropped: t2, t3",
        "  a7 in the same folder: told before the next prompt.",
        "  a8, started by this agent: not rolled back.",
        "Nothing has changed yet.",
    ]


@pytest.mark.contract("V-472")
def test_outside_is_gold(coloured: Terminal) -> None:
    """And nothing else is."""
    gold = [line for line in plan_lines(a_plan(), coloured) if "\x1b[33m" in line]
    assert len(gold) == 2
    assert "README.md" in gold[1]


@pytest.mark.contract("V-476")
def test_the_row_of_a_rollback_is_the_contracts(plain: Terminal) -> None:
    """One file, conversation too, and where the undo is; the dropped turns are folded under it."""
    done = a_plan(safety="k4", after="k5", exact=True, dry_run=False)
    done["repos"][0]["files"] = done["repos"][0]["files"][:1]
    lines = list(done_lines(done, plain))
    assert lines[0] == "↺ Rolled back to k2 (after t1) · 1 file · conversation too · undo: k4"
    assert lines[1] == "  dropped: t2, t3"
    assert "    deleted    gen/out.txt" in lines


def test_what_did_not_go_as_planned_is_said(plain: Terminal) -> None:
    """Somebody wrote meanwhile: not exact, and what was kept aside has a name."""
    done = a_plan(safety="k4", after="k5", exact=False, dry_run=False, restore="files")
    done["conversation"] = {"rewinds": False, "through_turn": None, "drops": []}
    done["repos"][0]["kept"] = [{"path": "src/main.py", "sha256": "0" * 64}]
    text = "\n".join(done_lines(done, plain))
    assert "(before the first turn)" in text
    assert "files only" in text
    assert "kept aside: src/main.py" in text
    assert "the files are not exactly as planned" in text


@pytest.mark.contract("V-475")
def test_files_only_says_that_the_model_will_be_told(plain: Terminal) -> None:
    """In the plan and in the outcome."""
    plan = a_plan(restore="files", conversation={"rewinds": False, "through_turn": "t1", "drops": []})
    assert "  the conversation stays as it is; the agent would be told with its next prompt" in plan_lines(
        plan, plain
    )
    done = {**plan, "safety": "k4", "after": "k5", "exact": True}
    assert "  the conversation stays as it is; the agent will be told with its next prompt" in done_lines(
        done, plain
    )


def test_an_empty_plan_is_known() -> None:
    """No file, no HEAD, no conversation."""
    assert not is_empty(a_plan())
    plan = a_plan(conversation={"rewinds": False, "through_turn": "t1", "drops": []})
    plan["repos"][0]["files"] = []
    assert not is_empty(plan), "HEAD moves"
    plan["repos"][0]["head"]["moves"] = False
    assert is_empty(plan)
    assert not is_empty({**plan, "conversation": {"rewinds": False, "through_turn": None, "drops": ["t1"]}})


def test_several_repositories_are_told_apart(plain: Terminal) -> None:
    """Each under its own name."""
    plan = a_plan()
    plan["repos"] = [{**plan["repos"][0], "repo": "one"}, {**plan["repos"][0], "repo": "two"}]
    lines = list(plan_lines(plan, plain))
    assert "in one (/home/u/app):" in lines
    assert "in two (/home/u/app):" in lines


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain name.txt", "plain name.txt"),
        ("Grüße.txt", "Grüße.txt"),
        ("back\\slash", "back\\slash"),
        ("tab\there", "tab\\x09here"),
        ("line\nfeed", "line\\x0afeed"),
        ("esc\x1b[31m", "esc\\x1b[31m"),
        ("c1\x9b31m", "c1\\x9b31m"),
        ("turn\u202earound", "turn\\u202earound"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("nbsp\u00a0", "nbsp\\xa0"),
        ("both\\and\n", "both\\\\and\\x0a"),
        ("lone\udcff", "lone\\xff"),
        ("tag\U000e0001", "tag\\U000e0001"),
    ],
)
def test_names_are_safe_to_show(name: str, shown: str) -> None:
    """Whatever can't be seen is written as an escape, and the escape can be told from the name itself."""
    assert visible(name) == shown


def test_a_path_is_shown_by_its_bytes() -> None:
    """U+FFFD stands in JSON; a person sees which byte it was."""
    assert path_text({"path": "caf\ufffd", "path_b64": "Y2Fm6Q=="}) == "caf\\xe9"
    assert path_text({"path": "a", "change": "modify"}) == "a"
    assert path_text("a\n") == "a\\x0a"


def test_small_things() -> None:
    """Ages, counts and tables."""
    assert [age(ms) for ms in (-5, 999, 61_000, 7_200_000, 200_000_000)] == ["0s", "0s", "1m", "2h", "2d"]
    assert [count(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert width("e\u0301漢") == 3
    assert list(table(("A", "B"), [("漢", "x"), ("yyy", "")])) == ["A    B", "漢   x", "yyy"]


def test_text_that_the_stream_cannot_hold_is_escaped() -> None:
    """A terminal with an old encoding gets no error."""
    raw = io.BytesIO()
    old = io.TextIOWrapper(raw, encoding="iso-8859-1", write_through=True)
    Terminal(old, old, io.StringIO()).say("↺ Grüße")
    assert raw.getvalue() == b"\\u21ba Gr\xfc\xdfe\n"


def test_an_answer_that_never_comes_is_the_default() -> None:
    """The end of the input."""
    out = io.StringIO()
    terminal = Terminal(out, out, io.StringIO(""))
    assert terminal.choose("Sure? ", {"yes": "yes", "no": "no"}, "no") == "no"
    assert out.getvalue() == "Sure? \n"
