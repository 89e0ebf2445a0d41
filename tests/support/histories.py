"""Logs as stories: a small history that has everything in it, random ones that could have happened, and long ones for timing."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from turnback.clock import Clock, stamp
from turnback.records.events import Record, StoredRecord
from turnback.records.state import State

WORKSPACE = "/home/u/app"
STARTED = 1_794_225_600_000


class FixedClock(Clock):
    """A clock whose every look is a second later, and whose ids count."""

    def __init__(self) -> None:
        self.time = STARTED
        self.ids = 0

    def now(self) -> int:
        self.time += 1000
        return self.time

    def new_uuid(self) -> str:
        self.ids += 1
        return f"5b0c8d1e-2f3a-4b5c-9d6e-{self.ids:012d}"


def added(agent: str, key: str = "8:1", **more: Any) -> Record:
    tree = {"repo": ".", "path": WORKSPACE, "key": key}
    return Record("agent.added", {"agent": agent, "isolation": "in_place", "trees": [tree], **more})


def started(agent: str, turn: str, **more: Any) -> Record:
    return Record("turn.started", {"agent": agent, "turn": turn, "origin": "user", **more})


def ended(agent: str, turn: str, reason: str = "completed", **more: Any) -> Record:
    return Record("turn.ended", {"agent": agent, "turn": turn, "reason": reason, **more})


def taken(agent: str, checkpoint: str, reason: str = "turn_end", **more: Any) -> Record:
    row = {"repo": ".", "path": WORKSPACE, "commit": "c" * 40, "head": "8" * 40, "branch": "main"}
    repo = {**row, "skipped": [], "submodules": [], "tree": "6" * 40, "key": "8:1"}
    data: dict[str, Any] = {"agent": agent, "checkpoint": checkpoint, "reason": reason, "through_turn": None}
    data |= {"at": stamp(STARTED), "mid_turn": False, "overlap": False, "repos": [repo], **more}
    return Record("checkpoint.taken", data)


def reused(agent: str, checkpoint: str, reason: str = "turn_start", **more: Any) -> Record:
    data = {"agent": agent, "checkpoint": checkpoint, "reason": reason, "through_turn": None, **more}
    return Record("checkpoint.reused", data)


def created() -> Record:
    return Record("log.created", {"format": 1, "workspace": WORKSPACE, "id": "5b0c"})


def folded(*records: Record) -> State:
    """The state after these records, the first of which is made the log's first."""
    state = State()
    for record in (created(), *records):
        state.apply(StoredRecord(state.seq + 1, STARTED, *record))
    return state


# --- random histories ----------------------------------------------------------------------------------------------

steps = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 3), st.integers(0, 3)), max_size=60)
"""Numbers that ``history`` makes a history of."""


def history(numbers: list[tuple[int, int, int]]) -> list[Record]:
    """A history in which every record can follow the ones before it."""
    state = folded()
    records = [created()]
    for what, which, detail in numbers:
        record = _next(state, what, f"a{which}", detail)
        state.apply(StoredRecord(state.seq + 1, STARTED, *record))
        records.append(record)
    return records


def _next(state: State, what: int, name: str, detail: int) -> Record:
    if name not in state.agents:
        parent = next(reversed(state.agents), None)
        more = {} if parent is None else {"parent": parent}
        return added(name, f"8:{detail % 2}", harness=("codex", None)[detail % 2], **more)
    agent = state.agents[name]
    checkpoints = list(agent.checkpoints)
    turns = list(agent.turns)
    if what < 3 and agent.running_turn is None:
        return started(name, f"t{agent.next_turn + detail}", prompt="ü" * detail)
    if what < 5 and agent.running_turn is not None:
        return ended(name, agent.running_turn, ("completed", "failed", "limit", "interrupted")[detail])
    if what < 7:
        return taken(name, f"k{agent.next_checkpoint + detail}", "manual", mid_turn=detail == 1)
    if what == 7 and checkpoints:
        more = {"label": f"label {detail}"} if detail else {}
        return reused(name, checkpoints[-1], turn="t1", **more)
    if what == 8 and checkpoints:
        return Record("checkpoint.pruned", {"agent": name, "checkpoints": checkpoints[: detail + 1]})
    if what == 9 and turns:
        return Record("turn.dropped", {"agent": name, "turns": turns[-detail:], "by": "k1"})
    if what == 10 and turns:
        paths: list[Any] = ["a.txt", {"path": "b\ufffd", "path_b64": "Yv8="}]
        return Record("turn.edited", {"agent": name, "turn": turns[-1], "repo": ".", "paths": paths})
    data = {"agent": name, "checkpoint": "k1", "safety": "k2", "restore": "all"}
    if what == 11:
        return Record("rollback.started", {**data, "repos": []})
    if what == 12:
        return Record("rollback.ended", {**data, "ok": detail > 0, "expected": [{"repo": ".", "tree": "6"}]})
    if what == 13:
        return Record("note.pending", {"agents": list(state.agents), "text": "files went back"})
    if what == 14:
        kinds: list[Record] = [
            Record(
                "agent.state", {"agent": name, "state": ("archived", "queued", "settled", "failed")[detail]}
            ),
            Record("agent.binding", {"agent": name, "harness_session": f"s{detail}"}),
            Record("agent.stale_requests", {"agent": name, "requests": ["r1"] * detail}),
            Record("attention.raised", {"agent": name, "kind": "review", "reason": "k2"}),
        ]
        return kinds[detail]
    return Record("checkpoint.failed", {"agent": name, "reason": "turn_end", "code": "failed.checkpoint_git"})


# --- long histories ------------------------------------------------------------------------------------------------


def long_history(agents: int, turns: int) -> Iterator[list[Record]]:
    """Commits as real work makes them: five a turn, one record each, agents taking turns in turn."""
    for number in range(agents):
        yield [added(f"a{number}", f"8:{number}")]
    checkpoints = [0] * agents
    for index in range(turns):
        number = index % agents
        name, turn = f"a{number}", f"t{index // agents + 1}"
        through = f"t{index // agents}" if index >= agents else None
        yield [started(name, turn, prompt="rename the flag everywhere and run the tests")]
        if through is None:
            checkpoints[number] += 1
            yield [taken(name, f"k{checkpoints[number]}", "turn_start", turn=turn)]
        else:
            yield [reused(name, f"k{checkpoints[number]}", turn=turn, through_turn=through)]
        edit = {"agent": name, "turn": turn, "repo": ".", "paths": [f"src/proto/frame{index % 10}.zig"]}
        yield [Record("turn.edited", edit)]
        yield [ended(name, turn, harness_turn="db5b5038-2eca-45a0-bff2-ef5647c506fb")]
        checkpoints[number] += 1
        yield [taken(name, f"k{checkpoints[number]}", turn=turn, through_turn=turn)]
