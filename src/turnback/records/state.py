"""The state: a pure fold over the log. Nothing here reads a file, a clock or a repository.

``State.apply`` takes the records in order; ``dump`` and ``load`` carry the same state through JSON for the log's snapshot.
Rows that come in bulk (checkpoints, bindings, rollbacks) stay the dicts that the decoder made: folding a hundred thousand
records copies none of them. Whoever reads a row must not change it.

A record that contradicts the ones before it (an unknown agent, an id used twice) raises ``FoldError``: the log checks a commit by
folding it before it is written, so such a record never gets there. A record of an unknown *type* was written by a newer
version: it counts in ``seq``, is noted in ``unknown``, and changes nothing else.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from turnback.errors import NotFound
from turnback.records.agents import AgentState, CaptureRow, TurnState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from turnback.records.events import CheckpointRow, StoredRecord

__all__ = ["AgentState", "CaptureRow", "FoldError", "State", "TurnState"]

# Rows in one part of a dump: a part is encoded in about a millisecond, so no other thread waits longer for the interpreter.
_SLICE = 2_000


class FoldError(ValueError):
    """A record can't follow the ones before it; ``seq`` is its number (0 for a dump)."""

    def __init__(self, seq: int, why: str) -> None:
        super().__init__(why)
        self.seq = seq


class State:
    """The fold of a log up to record ``seq``.

    Attributes:
        seq: number of the last record folded; 0 for an empty log.
        created: data of ``log.created``, or None for an empty log.
        agents: by id, in the order they were added.
        captures: every capture of every agent, in log order.
        rollbacks: ``{agent, checkpoint, restore, started, ended, safety, after, expected, ok, code}`` of each rollback that has ended;
            ``started`` and ``ended`` are places in the log (``started`` None when its start is not in it).
        unknown: ``(seq, type)`` of the records that this version does not know.
    """

    __slots__ = ("_by_key", "_children", "agents", "captures", "created", "rollbacks", "seq", "unknown")

    def __init__(self) -> None:
        self.seq = 0
        self.created: dict[str, Any] | None = None
        self.agents: dict[str, AgentState] = {}
        self.captures: list[CaptureRow] = []
        self.rollbacks: list[dict[str, Any]] = []
        self.unknown: list[tuple[int, str]] = []
        self._by_key: dict[str, list[str]] = {}
        self._children: dict[str, list[str]] = {}

    def agent(self, agent_id: str) -> AgentState:
        """One agent.

        Raises:
            NotFound: ``not_found.agent``.
        """
        try:
            return self.agents[agent_id]
        except KeyError:
            raise NotFound(
                "agent", f"there is no agent {agent_id!r}; list them with: turnback agent list"
            ) from None

    def sharers(self, agent_id: str) -> list[AgentState]:
        """The other agents, not archived, that have a tree of this agent's (same ``key``), in the order they were added."""
        agent = self.agent(agent_id)
        ids = {other for tree in agent.trees for other in self._by_key.get(tree["key"], ())}
        ids.discard(agent_id)
        if not ids:
            return []
        found = [self.agents[other] for other in ids if not self.agents[other].archived]
        return found if len(found) < 2 else [other for other in list(self.agents.values()) if other in found]

    def children(self, agent_id: str) -> list[AgentState]:
        """The agents whose parent this one is, in the order they were added."""
        return [self.agents[child] for child in self._children.get(agent_id, ())]

    def descendants(self, agent_id: str) -> list[AgentState]:
        """Children, their children and so on; a parent stands before its children."""
        found: list[AgentState] = []
        waiting = self.children(agent_id)[::-1]
        while waiting:
            agent = waiting.pop()
            found.append(agent)
            waiting.extend(self.children(agent.id)[::-1])
        return found

    def apply(self, record: StoredRecord) -> None:
        """Fold one record.

        Raises:
            FoldError: its number is not the next one, or it contradicts the records before it.
        """
        seq, _, kind, data = record
        if seq != self.seq + 1:
            raise FoldError(seq, f"record {seq} can't follow record {self.seq}")
        fold = _FOLDS.get(kind)
        try:
            if fold is None:
                self.unknown.append((seq, kind))
            else:
                fold(self, seq, data)
        except FoldError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FoldError(seq, f"record {seq} ({kind}) has a form that can't be: {error!r}") from error
        self.seq = seq

    def dump(self) -> list[dict[str, Any]]:
        """The state as JSON objects, each small; ``load`` makes the same state from them."""
        return list(self.parts())

    def parts(self) -> Iterator[dict[str, Any]]:
        """``dump`` one object at a time."""
        yield {"seq": self.seq, "created": self.created, "unknown": self.unknown}
        for agent in self.agents.values():
            yield _dump_agent(agent)
            for turns in _slices(agent.turns.values()):
                columns = [[getattr(turn, name) for turn in turns] for name in _TURN]
                yield {"agent": agent.id, "turns": columns}
            for rows in _slices(agent.checkpoints.values()):
                yield {"agent": agent.id, "checkpoints": rows}
            for rows in _slices(agent.edits):
                yield {"agent": agent.id, "edits": _columns(rows)}
        for rows in _slices(self.captures):
            yield {"captures": _columns(rows)}
        for rows in _slices(self.rollbacks):
            yield {"rollbacks": rows}

    @classmethod
    def load(cls, parts: Iterable[dict[str, Any]]) -> State:
        """The state that ``dump`` gave these objects for.

        Raises:
            FoldError: they are not from ``dump``.
        """
        state = cls()
        try:
            for part in parts:
                state._take(part)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FoldError(0, f"this is no dump of a state: {error!r}") from error
        return state

    def _take(self, part: dict[str, Any]) -> None:
        if "seq" in part:
            self.seq, self.created = part["seq"], part["created"]
            self.unknown = [(seq, kind) for seq, kind in part["unknown"]]
        elif "captures" in part:
            self.captures += map(CaptureRow, *part["captures"])
        elif "rollbacks" in part:
            self.rollbacks += part["rollbacks"]
        elif "turns" in part:
            turns = map(TurnState, *part["turns"])
            self.agents[part["agent"]].turns.update(zip(part["turns"][0], turns, strict=True))
        elif "checkpoints" in part:
            rows = {row["checkpoint"]: row for row in part["checkpoints"]}
            self.agents[part["agent"]].checkpoints.update(rows)
        elif "edits" in part:
            self.agents[part["agent"]].edits += zip(*part["edits"], strict=True)
        else:
            values = {name: part[name] for name in _SCALARS}
            self._add(AgentState(**values, pruned=set(part["pruned"])))

    def _add(self, agent: AgentState) -> None:
        self.agents[agent.id] = agent
        for key in {tree["key"] for tree in agent.trees}:
            self._by_key.setdefault(key, []).append(agent.id)
        if agent.parent is not None:
            self._children.setdefault(agent.parent, []).append(agent.id)


_TURN = tuple(TurnState.__dataclass_fields__)
_SCALARS = tuple(
    name
    for name in AgentState.__dataclass_fields__
    if name not in {"turns", "checkpoints", "edits", "pruned"}
)


def _dump_agent(agent: AgentState) -> dict[str, Any]:
    part = {name: getattr(agent, name) for name in _SCALARS}
    part["pruned"] = sorted(agent.pruned, key=lambda identifier: int(identifier[1:]))
    return part


def _slices(rows: Iterable[Any]) -> Iterator[list[Any]]:
    remaining = iter(rows)
    while part := list(islice(remaining, _SLICE)):
        yield part


def _columns(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of one form as their columns: fewer objects for the decoder to make."""
    return list(zip(*rows, strict=True))


def _known(state: State, data: dict[str, Any]) -> AgentState:
    agent = state.agents.get(data["agent"])
    if agent is None:
        raise FoldError(state.seq + 1, f"there is no agent {data['agent']!r} at record {state.seq + 1}")
    return agent


def _created(state: State, seq: int, data: dict[str, Any]) -> None:
    if seq != 1:
        raise FoldError(seq, f"record {seq} creates the log a second time")
    state.created = data


def _agent_added(state: State, seq: int, data: dict[str, Any]) -> None:
    name = data["agent"]
    if name in state.agents:
        raise FoldError(seq, f"agent {name!r} is added a second time at record {seq}")
    state._add(AgentState(name, data.get("parent"), data["isolation"], data.get("harness"), data["trees"]))


def _agent_state(state: State, _seq: int, data: dict[str, Any]) -> None:
    _known(state, data).state = data["state"]


def _stale_requests(state: State, _seq: int, data: dict[str, Any]) -> None:
    _known(state, data).stale_requests = data["requests"]


def _binding(state: State, _seq: int, data: dict[str, Any]) -> None:
    _known(state, data).binding = data


def _turn_started(state: State, seq: int, data: dict[str, Any]) -> None:
    agent = _known(state, data)
    turn = data["turn"]
    number = int(turn[1:])
    if number < agent.next_turn:
        raise FoldError(seq, f"turn {turn} of {agent.id!r} is started a second time at record {seq}")
    agent.turns[turn] = TurnState(turn, data["origin"], data.get("prompt"), seq)
    agent.next_turn = number + 1
    agent.running_turn = turn
    agent.state = "running"


def _turn_edited(state: State, seq: int, data: dict[str, Any]) -> None:
    turn, repo = data["turn"], data["repo"]
    _known(state, data).edits += [(seq, turn, repo, path) for path in data["paths"]]


def _turn_ended(state: State, seq: int, data: dict[str, Any]) -> None:
    agent = _known(state, data)
    turn = agent.turns.get(data["turn"])
    if turn is None or turn.end_seq is not None:
        raise FoldError(seq, f"turn {data['turn']} of {agent.id!r} does not run at record {seq}")
    turn.end_seq = seq
    turn.reason = data["reason"]
    turn.harness_turn = data.get("harness_turn")
    turn.harness_end = data.get("harness_end")
    agent.ended.append(turn.turn)
    if agent.running_turn == turn.turn:
        agent.running_turn = None
        if agent.state != "archived":
            agent.state = "failed" if turn.reason == "failed" else "settled"


def _turn_dropped(state: State, _seq: int, data: dict[str, Any]) -> None:
    agent = _known(state, data)
    for turn in data["turns"]:
        agent.turns[turn].dropped = True


def _taken(state: State, seq: int, data: dict[str, Any]) -> None:
    agent = _known(state, data)
    checkpoint = data["checkpoint"]
    number = int(checkpoint[1:])
    if number < agent.next_checkpoint:
        raise FoldError(
            seq, f"checkpoint {checkpoint} of {agent.id!r} is taken a second time at record {seq}"
        )
    agent.checkpoints[checkpoint] = cast("CheckpointRow", data)
    agent.next_checkpoint = number + 1
    row = CaptureRow(seq, agent.id, data["reason"], data.get("turn"), checkpoint, "taken", data["mid_turn"])
    state.captures.append(row)


def _reused(state: State, seq: int, data: dict[str, Any]) -> None:
    agent = _known(state, data)
    checkpoint = data["checkpoint"]
    stored = agent.checkpoints.get(checkpoint)
    if "label" in data and stored is not None:
        labelled = stored.copy()
        labelled["label"] = data["label"]
        agent.checkpoints[checkpoint] = labelled
    mid_turn = data.get("mid_turn", False)
    row = CaptureRow(seq, agent.id, data["reason"], data.get("turn"), checkpoint, "reused", mid_turn)
    state.captures.append(row)


def _capture_failed(state: State, seq: int, data: dict[str, Any]) -> None:
    agent = _known(state, data)
    mid_turn = data.get("mid_turn", False)
    row = CaptureRow(seq, agent.id, data["reason"], data.get("turn"), None, "failed", mid_turn)
    state.captures.append(row)


def _pruned(state: State, _seq: int, data: dict[str, Any]) -> None:
    agent = _known(state, data)
    for checkpoint in data["checkpoints"]:
        if agent.checkpoints.pop(checkpoint, None) is not None:
            agent.pruned.add(checkpoint)


def _rollback_started(state: State, seq: int, data: dict[str, Any]) -> None:
    _known(state, data).rollback = {**data, "seq": seq}


def _rollback_ended(state: State, seq: int, data: dict[str, Any]) -> None:
    agent = _known(state, data)
    started = agent.rollback
    agent.rollback = None
    state.rollbacks.append(
        {
            "agent": agent.id,
            "checkpoint": data["checkpoint"],
            "restore": data["restore"],
            "started": None if started is None else started["seq"],
            "ended": seq,
            "safety": data["safety"],
            "after": data.get("after"),
            "expected": data.get("expected"),
            "ok": data["ok"],
            "code": data.get("code"),
        }
    )


def _note_pending(state: State, _seq: int, data: dict[str, Any]) -> None:
    for name in data["agents"]:
        _known(state, {"agent": name}).note = data["text"]


def _note_delivered(state: State, _seq: int, data: dict[str, Any]) -> None:
    _known(state, data).note = None


def _attention(state: State, _seq: int, data: dict[str, Any]) -> None:
    _known(state, data).attention.append(data)


def _nothing(_state: State, _seq: int, _data: dict[str, Any]) -> None:
    """Told by the log, kept by nobody."""


_FOLDS: dict[str, Callable[[State, int, dict[str, Any]], None]] = {
    "log.created": _created,
    "agent.added": _agent_added,
    "agent.state": _agent_state,
    "agent.stale_requests": _stale_requests,
    "agent.binding": _binding,
    "turn.started": _turn_started,
    "turn.edited": _turn_edited,
    "turn.ended": _turn_ended,
    "turn.dropped": _turn_dropped,
    "checkpoint.taken": _taken,
    "checkpoint.reused": _reused,
    "checkpoint.failed": _capture_failed,
    "checkpoint.pruned": _pruned,
    "checkpoint.removed": _nothing,
    "rollback.started": _rollback_started,
    "rollback.ended": _rollback_ended,
    "fork.ended": _nothing,
    "note.pending": _note_pending,
    "note.delivered": _note_delivered,
    "attention.raised": _attention,
}
