"""The fold: what the log's records make of agents, turns, checkpoints and rollbacks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.histories import (
    STARTED,
    added,
    created,
    ended,
    folded,
    history,
    long_history,
    reused,
    started,
    steps,
    taken,
)
from turnback.errors import NotFound
from turnback.records.agents import LIVE
from turnback.records.codec import dumps, loads
from turnback.records.events import INTERNAL, PUBLISHED, Record, StoredRecord, published
from turnback.records.state import _FOLDS, FoldError, State


def after(state: State, *records: Record) -> State:
    """The same state, further on."""
    for record in records:
        state.apply(StoredRecord(state.seq + 1, STARTED, *record))
    return state


def reloaded(state: State) -> State:
    """The state that comes back from a dump that went through bytes."""
    return State.load(loads(dumps(state.dump())))


# --- agents --------------------------------------------------------------------------------------------------------


def test_an_added_agent_is_settled_and_knows_its_trees() -> None:
    """An agent begins settled, without turns or checkpoints, with the next numbers 1."""
    agent = folded(added("a2", harness="codex")).agent("a2")
    assert (agent.id, agent.parent, agent.isolation, agent.harness) == ("a2", None, "in_place", "codex")
    assert [tree["key"] for tree in agent.trees] == ["8:1"]
    assert (agent.state, agent.live, agent.archived, agent.running_turn) == ("settled", False, False, None)
    assert (agent.next_turn, agent.next_checkpoint) == (1, 1)
    assert (agent.last_turn, agent.through_turn, agent.latest_checkpoint) == (None, None, None)


def test_an_agent_that_is_not_there_is_said_with_a_way_out() -> None:
    """Asking for an unknown agent names it and the command that lists them."""
    with pytest.raises(NotFound, match="no agent 'a9'; list them with: turnback agent list") as caught:
        folded(added("a2")).agent("a9")
    assert caught.value.code == "not_found.agent"


@pytest.mark.parametrize("value", ["queued", "needs_you", "handed_over", "archived", "settled", "failed"])
def test_a_host_sets_an_agents_state(value: str) -> None:
    """The state is what was last said, and four of them are live."""
    agent = folded(added("a2"), Record("agent.state", {"agent": "a2", "state": value})).agent("a2")
    assert agent.state == value
    assert agent.live == (value in LIVE)
    assert agent.archived == (value == "archived")


def test_sharers_have_a_tree_in_common_by_key() -> None:
    """Two agents whose trees have one key are sharers, whatever path they spell; an archived one is nobody's."""
    state = folded(added("a1"), added("a2", "8:2"), added("a3"), added("a4"), added("a5"))
    assert [agent.id for agent in state.sharers("a1")] == ["a3", "a4", "a5"]
    assert state.sharers("a2") == []
    after(state, Record("agent.state", {"agent": "a4", "state": "archived"}))
    assert [agent.id for agent in state.sharers("a1")] == ["a3", "a5"]
    assert [agent.id for agent in state.sharers("a4")] == ["a1", "a3", "a5"]
    assert [agent.id for agent in reloaded(state).sharers("a1")] == ["a3", "a5"]
    with pytest.raises(NotFound):
        state.sharers("a9")


def test_an_agent_with_two_trees_shares_each_of_them() -> None:
    """An agent over two repositories has the sharers of both, each once."""
    trees = [{"repo": repo, "path": f"/w/{repo}", "key": key} for repo, key in (("x", "8:1"), ("y", "8:2"))]
    both = {"agent": "a2", "isolation": "worktree", "trees": trees}
    state = folded(
        added("a1"),
        Record("agent.added", both),
        added("a3", "8:2"),
        Record("agent.added", both | {"agent": "a4"}),
    )
    assert [agent.id for agent in state.sharers("a2")] == ["a1", "a3", "a4"]
    assert [agent.id for agent in state.sharers("a3")] == ["a2", "a4"]


def test_descendants_come_parents_first() -> None:
    """Children are listed in the order they were added, each before its own children."""
    state = folded(
        added("a1"), added("a2", parent="a1"), added("a3", parent="a1"), added("a4", parent="a2"), added("a5")
    )
    for each in (state, reloaded(state)):
        assert [agent.id for agent in each.children("a1")] == ["a2", "a3"]
        assert [agent.id for agent in each.descendants("a1")] == ["a2", "a4", "a3"]
        assert each.descendants("a5") == []


# --- turns ---------------------------------------------------------------------------------------------------------


def test_a_turn_runs_and_ends() -> None:
    """A turn makes its agent running and has its places in the log; its end says how, and what the harness calls it."""
    state = folded(added("a2"), started("a2", "t1", prompt="rename the flag"))
    agent = state.agent("a2")
    assert (agent.state, agent.running_turn, agent.last_turn, agent.through_turn) == (
        "running",
        "t1",
        "t1",
        None,
    )
    after(state, ended("a2", "t1", harness_turn="h1", harness_end="e1"))
    turn = agent.turns["t1"]
    assert (turn.prompt, turn.origin, turn.start_seq, turn.end_seq) == ("rename the flag", "user", 3, 4)
    assert (turn.reason, turn.harness_turn, turn.harness_end) == ("completed", "h1", "e1")
    assert (agent.state, agent.running_turn, agent.through_turn) == ("settled", None, "t1")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("completed", "settled"), ("interrupted", "settled"), ("limit", "settled"), ("failed", "failed")],
)
def test_a_turns_end_settles_its_agent_or_fails_it(reason: str, expected: str) -> None:
    """Only a turn that failed leaves its agent failed."""
    assert folded(added("a2"), started("a2", "t1"), ended("a2", "t1", reason)).agent("a2").state == expected


def test_an_archived_agent_stays_archived_when_its_turn_ends() -> None:
    """A turn that ends after its agent was archived does not bring it back."""
    archived = Record("agent.state", {"agent": "a2", "state": "archived"})
    assert folded(added("a2"), started("a2", "t1"), archived, ended("a2", "t1")).agent("a2").archived


def test_the_end_of_an_older_turn_leaves_the_newer_one_running() -> None:
    """A turn that the harness began before the one before it was ended runs on after that end."""
    state = folded(added("a2"), started("a2", "t1"), started("a2", "t2", origin="harness"), ended("a2", "t1"))
    agent = state.agent("a2")
    assert (agent.state, agent.running_turn, agent.through_turn) == ("running", "t2", "t1")


@pytest.mark.contract("V-340")
def test_numbers_of_turns_go_on_after_some_were_dropped() -> None:
    """After t4 and t5 were dropped the next turn is t6, and what goes with the files is the last turn that stayed."""
    turns = [step for n in range(1, 6) for step in (started("a2", f"t{n}"), ended("a2", f"t{n}"))]
    dropped = Record("turn.dropped", {"agent": "a2", "turns": ["t4", "t5"], "by": "k7"})
    agent = folded(added("a2"), *turns, dropped).agent("a2")
    assert agent.next_turn == 6
    assert (agent.last_turn, agent.through_turn) == ("t5", "t3")
    assert [turn.turn for turn in agent.turns.values() if turn.dropped] == ["t4", "t5"]


def test_edits_are_kept_with_their_turn_and_place() -> None:
    """Every path that an edit call named is kept in order, also one that isn't UTF-8."""
    odd = {"path": "gr\ufffd", "path_b64": "Z3Lp"}
    edit = {"agent": "a2", "turn": "t1", "repo": ".", "paths": ["src/main.py", odd]}
    state = folded(added("a2"), started("a2", "t1"), Record("turn.edited", edit))
    expected = [(4, "t1", ".", "src/main.py"), (4, "t1", ".", odd)]
    assert state.agent("a2").edits == expected
    assert reloaded(state).agent("a2").edits == expected


# --- checkpoints ---------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-151")
def test_checkpoints_are_listed_from_the_log() -> None:
    """A checkpoint is there because the log has its record, in the record's own words."""
    record = taken("a2", "k1", "turn_start", turn="t1")
    state = folded(added("a2"), record)
    assert state.agent("a2").checkpoints == {"k1": record.data}
    assert state.agent("a2").latest_checkpoint == record.data
    assert state.captures == [(3, "a2", "turn_start", "t1", "k1", "taken", False)]


@pytest.mark.contract("V-030")
def test_every_agent_counts_for_itself() -> None:
    """Two agents both have a k1, and the number after it is 2 for each."""
    state = folded(added("a1"), added("a2"), taken("a1", "k1"), taken("a2", "k1"))
    assert [agent.next_checkpoint for agent in state.agents.values()] == [2, 2]


@pytest.mark.contract("V-081")
@pytest.mark.contract("V-416")
def test_a_reused_checkpoint_is_a_capture_and_no_event() -> None:
    """A capture that found nothing new is in the list of captures, makes no checkpoint, and is not published."""
    record = reused("a2", "k1", turn="t2", mid_turn=True)
    state = folded(added("a2"), taken("a2", "k1"), record)
    assert list(state.agent("a2").checkpoints) == ["k1"]
    assert state.captures[-1] == (4, "a2", "turn_start", "t2", "k1", "reused", True)
    for kind in INTERNAL:
        assert published(StoredRecord(4, STARTED, kind, record.data), "venom/x") is None


def test_a_label_is_set_on_the_checkpoint_that_was_reused() -> None:
    """A label that comes with a reuse is in the checkpoint's row from then on; the record that was stored is not changed."""
    record = taken("a2", "k1")
    state = folded(added("a2"), record, reused("a2", "k1", "manual", label="before the migration"))
    assert state.agent("a2").checkpoints["k1"]["label"] == "before the migration"
    assert "label" not in record.data
    assert reloaded(state).agent("a2").checkpoints["k1"]["label"] == "before the migration"


def test_a_failed_capture_is_a_capture_without_a_checkpoint() -> None:
    """A capture that failed has a row, so that its window is a gap, and uses no number."""
    failed = {"agent": "a2", "reason": "turn_end", "code": "timeout.checkpoint", "turn": "t1"}
    state = folded(added("a2"), Record("checkpoint.failed", failed))
    assert state.captures == [(3, "a2", "turn_end", "t1", None, "failed", False)]
    assert state.agent("a2").next_checkpoint == 1


def test_a_pruned_checkpoint_goes_and_its_captures_stay() -> None:
    """A pruned checkpoint is counted as pruned, its captures stay in the list, and its number is not used again."""
    pruned = Record("checkpoint.pruned", {"agent": "a2", "checkpoints": ["k1", "k2", "k9"]})
    state = folded(added("a2"), taken("a2", "k1"), taken("a2", "k2"), pruned, reused("a2", "k2", label="x"))
    agent = state.agent("a2")
    assert agent.checkpoints == {}
    assert agent.pruned == {"k1", "k2"}
    assert [row.checkpoint for row in state.captures] == ["k1", "k2", "k2"]
    assert agent.next_checkpoint == 3


def test_a_number_may_be_skipped_but_not_used_twice() -> None:
    """When a number was used by a lost log the next free one is taken; an older number is refused."""
    state = folded(added("a2"), taken("a2", "k5"))
    assert state.agent("a2").next_checkpoint == 6
    with pytest.raises(FoldError, match="k5 of 'a2' is taken a second time"):
        after(state, taken("a2", "k5"))


# --- rollbacks, notes and the rest ---------------------------------------------------------------------------------


def test_a_rollback_is_open_until_it_ends() -> None:
    """An open rollback is known with its place; its end moves it to the rollbacks, with the trees that were expected."""
    base = {"agent": "a2", "checkpoint": "k1", "safety": "k3", "restore": "all"}
    state = folded(added("a2"), Record("rollback.started", {**base, "outside": "keep"}))
    assert state.agent("a2").rollback == {**base, "outside": "keep", "seq": 3}
    assert reloaded(state).agent("a2").rollback == state.agent("a2").rollback
    expected = [{"repo": ".", "tree": "6" * 40}]
    after(state, Record("rollback.ended", {**base, "ok": True, "after": "k4", "expected": expected}))
    assert state.agent("a2").rollback is None
    one = {**base, "started": 3, "ended": 4, "after": "k4", "expected": expected, "ok": True, "code": None}
    assert state.rollbacks == [one]
    assert reloaded(state).rollbacks == [one]


def test_the_end_of_a_rollback_that_was_never_started_is_kept() -> None:
    """An end without a start has no start, and is a rollback all the same."""
    data = {
        "agent": "a2",
        "checkpoint": "k1",
        "safety": "k3",
        "restore": "files",
        "ok": False,
        "code": "failed.x",
    }
    state = folded(added("a2"), Record("rollback.ended", data))
    assert [(row["started"], row["ok"], row["after"], row["code"]) for row in state.rollbacks] == [
        (None, False, None, "failed.x")
    ]


def test_a_note_waits_until_it_is_delivered() -> None:
    """A note is pending for each agent that it names, and gone for the one that has had it."""
    pending = Record("note.pending", {"agents": ["a1", "a2"], "text": "files went back"})
    state = folded(added("a1"), added("a2"), pending, Record("note.delivered", {"agent": "a1"}))
    assert (state.agent("a1").note, state.agent("a2").note) == (None, "files went back")


def test_bindings_requests_and_attention_are_kept() -> None:
    """What the harness holds, what waits in the inbox and what needs a person are the agent's."""
    binding = {"agent": "a2", "harness_session": None, "fork_source": "s1", "fork_at": "e1"}
    raised = {"agent": "a2", "kind": "review", "reason": "safety checkpoint k4"}
    requests = {"agent": "a2", "requests": ["r1", "r2"]}
    state = folded(
        added("a2"),
        Record("agent.binding", binding),
        Record("agent.stale_requests", requests),
        Record("attention.raised", raised),
    )
    for each in (state, reloaded(state)):
        agent = each.agent("a2")
        assert (agent.binding, agent.stale_requests, agent.attention) == (binding, ["r1", "r2"], [raised])


def test_records_that_only_tell_change_nothing_but_the_count() -> None:
    """A forked or cleaned agent's record counts, and the state is the same otherwise."""
    state = folded(added("a2"))
    before = state.dump()[1:]
    cleaned = {"agent": "a2", "repo": ".", "removed": 3, "kept": 1}
    forked = {"agent": "a2", "fork": "a3", "through_turn": "t1", "ok": True}
    after(state, Record("checkpoint.removed", cleaned), Record("fork.ended", forked))
    assert state.seq == 4
    assert state.dump()[1:] == before


# --- what does not fit ---------------------------------------------------------------------------------------------


def test_a_record_of_a_newer_version_counts_and_changes_nothing() -> None:
    """A type that this version does not know is noted by its place and ignored."""
    state = folded(added("a2"), Record("agent.renamed", {"whatever": 1}), started("a2", "t1"))
    assert (state.seq, state.unknown) == (4, [(3, "agent.renamed")])
    assert reloaded(state).unknown == [(3, "agent.renamed")]
    assert state.agent("a2").running_turn == "t1"


@pytest.mark.parametrize(
    "record",
    [
        created(),
        added("a2"),
        started("a9", "t1"),
        started("a2", "t1"),
        started("a2", "x"),
        ended("a2", "t1"),
        ended("a2", "t2"),
        Record("turn.dropped", {"agent": "a2", "turns": ["t7"]}),
        Record("turn.started", {"agent": "a2"}),
        Record("turn.started", {"agent": "a2", "turn": None, "origin": "user"}),
        Record("checkpoint.taken", {"agent": "a2", "checkpoint": "k"}),
        Record("note.pending", {"agents": ["a2", "a9"], "text": "x"}),
        Record("agent.state", {}),
        Record("agent.added", {"agent": "a3", "isolation": "copy", "trees": [{}]}),
    ],
)
def test_a_record_that_contradicts_the_log_is_refused(record: Record) -> None:
    """An id used twice, an unknown agent or turn, a missing member: each is one kind of error, with the record's number."""
    state = folded(added("a2"), started("a2", "t1"), ended("a2", "t1"))
    with pytest.raises(FoldError) as caught:
        after(state, record)
    assert caught.value.seq == 5
    assert state.seq == 4


@pytest.mark.parametrize("seq", [0, 2, 4, -1])
def test_a_gap_or_a_repetition_is_refused(seq: int) -> None:
    """Only the next number can follow."""
    state = folded(added("a2"))
    with pytest.raises(FoldError, match=f"record {seq} can't follow record 2"):
        state.apply(StoredRecord(seq, STARTED, *started("a2", "t1")))


def test_every_type_of_record_has_a_fold() -> None:
    """Each type that may be written is known to the fold, and the fold knows no other."""
    assert set(_FOLDS) == {*PUBLISHED, *INTERNAL}


@pytest.mark.parametrize(
    "dump", [[{}], [{"seq": 1}], [{"agent": "a2", "turns": []}], [{"captures": [[1]]}], [3], [{"id": "a2"}]]
)
def test_what_is_no_dump_is_refused(dump: Any) -> None:
    """Objects that no state was dumped to raise the one error."""
    with pytest.raises(FoldError):
        State.load(dump)


# --- dump and load -------------------------------------------------------------------------------------------------


@given(steps, st.data())
def test_any_split_of_a_history_gives_the_same_state(
    numbers: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """A state dumped anywhere in a history, loaded and folded on, is the state folded from the beginning."""
    records = [StoredRecord(index, STARTED, *record) for index, record in enumerate(history(numbers), 1)]
    whole = State()
    for record in records:
        whole.apply(record)
    split = data.draw(st.integers(0, len(records)))
    state = State()
    for record in records[:split]:
        state.apply(record)
    state = reloaded(state)
    for record in records[split:]:
        state.apply(record)
    assert state.dump() == whole.dump()
    assert [state.sharers(name) for name in state.agents] == [whole.sharers(name) for name in whole.agents]
    assert [state.children(name) for name in state.agents] == [whole.children(name) for name in whole.agents]


def test_a_dump_comes_in_small_parts() -> None:
    """However long the log is, no part of its dump holds the interpreter for long."""
    state = folded()
    for commit in long_history(2, 3000):
        after(state, *commit)
    sizes = [len(dumps(part)) for part in state.parts()]
    assert max(sizes) < 1_000_000
    assert len(sizes) > 10
    assert reloaded(state).dump() == state.dump()


def test_a_dump_is_json_for_anybody() -> None:
    """The standard library reads and writes the same dump."""
    state = folded(added("a2"), started("a2", "t1"), taken("a2", "k1"))
    assert State.load(json.loads(json.dumps(state.dump()))).dump() == state.dump()


@pytest.mark.contract("V-150")
def test_a_taken_checkpoint_is_published_without_what_is_internal() -> None:
    """The record of a checkpoint is the event ``agent.checkpoint``, whose repos have a name and a commit alone."""
    record = StoredRecord(7, STARTED, *taken("a2", "k1", turn="t1", through_turn="t1"))
    event = published(record, "venom/5b0c")
    assert event is not None
    assert (event["type"], event["seq"], event["source"]) == ("agent.checkpoint", 7, "venom/5b0c")
    assert event["data"]["repos"] == [{"repo": ".", "commit": "c" * 40}]
    assert "at" not in event["data"]
