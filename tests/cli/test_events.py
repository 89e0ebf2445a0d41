"""``turnback events``: the envelope, the order, the selectors, and following."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Story
    from support.command import Command


@pytest.mark.contract("V-020", "V-021", "V-023")
def test_a_rollback_is_four_events_in_the_contracts_order(command: Command, turns: Story) -> None:
    """With consecutive numbers, in the envelope, and chosen by type and resource."""
    plan = turns.agent.rollback("k2", restore="files", dry_run=True)
    turns.agent.rollback("k2", restore="files", plan=plan.plan)
    ran = command("events", "--types", '["agent.*"]', "--resources", '["agent:a5"]', "--json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    for event in events:
        assert list(event) == ["seq", "ts", "source", "type", "data"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["ts"])
        assert re.fullmatch(r"venom/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", event["source"])
    last = [event for event in events if event["seq"] > events[2]["seq"]]
    assert [event["type"] for event in last] == [
        "agent.checkpoint",
        "agent.rollback_started",
        "agent.checkpoint",
        "agent.rollback_ended",
    ]
    assert [event["data"].get("reason") for event in last] == ["pre_rollback", None, "rollback", None]
    assert last[0]["data"]["through_turn"] == "t2"
    after = command("events", f"--after={last[1]['seq']}", "--json").out.splitlines()
    assert [json.loads(line) for line in after] == last[2:]


@pytest.mark.contract("V-023")
@pytest.mark.parametrize("selector", ["agent.rollback_*", "*", "agent.", "", "agent.*.x"])
def test_a_selector_is_a_name_or_a_prefix(command: Command, selector: str) -> None:
    """Nothing else is one, and nothing is expanded."""
    command.fails("invalid_params.types", 2, "events", "--types", json.dumps([selector]))


def test_what_is_no_list_is_refused(command: Command) -> None:
    """Lists are JSON; numbers are whole."""
    fails = command.fails
    fails("invalid_params.types", 2, "events", "--types=agent.*")
    fails("invalid_params.types", 2, "events", "--types=[1]")
    fails("invalid_params.resources", 2, "events", '--resources=["a5"]')
    fails("invalid_params.after", 2, "events", "--after=-1")


def test_following_shows_what_happens_and_ends_quietly(command: Command, turns: Story) -> None:
    """Each event goes out as it happens; Ctrl-C ends with 130 and without a word."""
    process = command.start("events", "--after", "0", "--follow", "--types", '["agent.checkpoint"]', "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        for expected in ("k1", "k2", "k3"):
            assert json.loads(process.stdout.readline())["data"]["checkpoint"] == expected
        turns.repo.write("new.txt", "new\n")
        command("save")
        assert json.loads(process.stdout.readline())["data"]["checkpoint"] == "k4"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert process.stderr.read() == b""
    assert process.returncode == 130


def test_a_reader_who_goes_away_ends_it_quietly(command: Command, turns: Story) -> None:
    """As ``turnback events --follow | head -1`` does."""
    process = command.start("events", "--follow", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdout.readline()
        process.stdout.close()
        turns.repo.write("new.txt", "new\n")
        command("save")
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_the_text_has_one_line_an_event(command: Command, turns: Story) -> None:
    """Number, time, type, agent, then the members."""
    turns.agent.checkpoint(label="two\nlines")
    turns.repo.write("new.txt", "new\n")
    turns.agent.checkpoint(label="two\nlines")
    lines = command("events").out.splitlines()
    assert len(lines) == 4
    assert "agent.checkpoint  a5  checkpoint=k1  reason=turn_start  turn=t1" in lines[0]
    assert lines[3].endswith(r"label=two\x0alines")
