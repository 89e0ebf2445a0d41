"""Attribution against a slow, obvious model: random lives of a tree, shared by agents, a person and everything that goes wrong.

A ``World`` plays the history on a dict and writes down, beside the log that the code under test gets, what the code can't see: a tape of every
write and, for every moment, whose turn it was. ``obvious`` classifies from the tape, moment by moment. Two things have to hold: both agree, and
what a stranger wrote outside the agent's turn never comes out as the agent's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from turnback.policy.windows import (
    Capture,
    PathClass,
    Rollback,
    TurnSpan,
    Window,
    WindowKind,
    classify,
    windows,
)

Files = dict[bytes, int]
PATHS = (b"a", b"b", b"d/c")
AGENTS = ("a1", "a2", "a3", "a4")


@dataclass
class Look:
    """A capture as it was: what it saw (None when it failed), and which objects it needs to be of use later."""

    seq: int
    agent: str
    reason: str
    turn: str | None
    files: Files | None
    key: int
    overlap: bool = False


@dataclass
class Moment:
    """One entry of the tape, and whose turn it was from then until the next: the turns that ran, and what makes them doubtful."""

    look: Look | None = None
    wrote: bytes | None = None
    turns: dict[str, frozenset[str]] = field(default_factory=dict)
    rolling: bool = False
    taken: frozenset[str] = frozenset()


class World:
    """The tree, its agents, the log of the code under test and the tape of the model."""

    def __init__(self) -> None:
        self.files: Files = {b"a": 0}
        self.seq = 0
        self.looks: list[Look] = []
        self.spans: dict[tuple[str, str], TurnSpan] = {}
        self.rollbacks: list[tuple[Rollback, Files | None, Look | None]] = []
        self.edits: list[tuple[str, str, bytes]] = []
        self.pruned: set[int] = set()
        self.agents = ["a1", "a2"]
        self.count = dict.fromkeys(AGENTS, 0)
        self.running: dict[str, str] = {}
        self.closing: dict[str, str] = {}
        self.taken: set[str] = set()
        self.rolling = False
        self.tape = [Moment()]

    # What the tape and the log say.

    def log(self) -> int:
        self.seq += 1
        return self.seq

    def note(self, *, look: Look | None = None, wrote: bytes | None = None) -> None:
        ran = {
            agent: frozenset(
                turn for turn in (self.running.get(agent), self.closing.get(agent)) if turn is not None
            )
            for agent in self.agents
        }
        self.tape.append(Moment(look, wrote, ran, self.rolling, frozenset(self.taken)))

    def write(self, path: bytes, value: int) -> None:
        if value == 0:
            self.files.pop(path, None)
        else:
            self.files[path] = value
        self.note(wrote=path)

    def look(
        self,
        agent: str,
        reason: str,
        turn: str | None = None,
        *,
        fails: bool = False,
        overlap: bool = False,
        seen: Files | None = None,
    ) -> Look:
        seen = dict(self.files if seen is None else seen)
        key = len(self.looks)
        own = [look for look in self.looks if look.agent == agent and look.files is not None]
        if own and own[-1].files == seen and reason not in ("rollback", "pre_rollback", "fork"):
            key = own[-1].key
        look = Look(self.log(), agent, reason, turn, None if fails else seen, key, overlap)
        self.looks.append(look)
        return look

    # What happens.

    def begin(self, agent: str, *, own: bool, fails: bool) -> None:
        """A turn that the host starts has a turn_start; one that the harness starts (``own``) has none."""
        if agent in self.running or agent in self.taken:
            return
        turn = self.started(agent)
        if own:
            self.running[agent] = turn
            self.note()
            return
        look = self.look(agent, "turn_start", turn, fails=fails)
        self.running[agent] = turn
        self.note(look=look)

    def started(self, agent: str) -> str:
        self.count[agent] += 1
        turn = f"t{self.count[agent]}"
        self.spans[agent, turn] = TurnSpan(agent, turn, self.log(), None)
        return turn

    def end(self, agent: str, *, fails: bool, overlap: bool, late: list[tuple[bytes, int]]) -> None:
        """Writes may land between the end and its capture; with ``overlap`` the next turn begins in that time."""
        turn = self.running.pop(agent, None)
        if turn is None:
            return
        span = self.spans[agent, turn]
        self.spans[agent, turn] = TurnSpan(agent, turn, span.start_seq, self.log())
        self.closing[agent] = turn
        self.note()
        if overlap:
            self.running[agent] = self.started(agent)
            self.note()
        for path, value in late:
            self.write(path, value)
        look = self.look(agent, "turn_end", turn, fails=fails, overlap=overlap)
        del self.closing[agent]
        self.note(look=look)

    def edit(self, agent: str, path: bytes, value: int) -> None:
        turn = self.running.get(agent)
        if turn is not None:
            self.edits.append((agent, turn, path))
            self.write(path, value)

    def manual(self, agent: str, *, fails: bool) -> None:
        self.note(look=self.look(agent, "manual", self.running.get(agent), fails=fails))

    def take(self, agent: str, *, fails: bool) -> None:
        if agent in self.running:
            return
        if agent in self.taken:
            look = self.look(agent, "takeback", fails=fails)
            self.taken.discard(agent)
        else:
            look = self.look(agent, "takeover", fails=fails)
            self.taken.add(agent)
        self.note(look=look)

    def fork(self, agent: str, which: int) -> None:
        """Its first checkpoint names an old commit of its source: nobody looks at the tree."""
        old = [look for look in self.looks if look.agent == agent and look.files is not None]
        if len(self.agents) == len(AGENTS) or not old:
            return
        source = old[which % len(old)]
        new = AGENTS[len(self.agents)]
        self.agents.append(new)
        look = self.look(new, "fork", seen=source.files)
        self.note(look=look)

    def prune(self, which: int) -> None:
        if self.looks:
            self.pruned.add(self.looks[which % len(self.looks)].key)

    def roll_back(self, agent: str, which: int, fate: int, drift: list[tuple[bytes, int]]) -> None:
        """To one of its checkpoints, some paths of it; somebody may write meanwhile, and it may end badly."""
        goals = [look for look in self.looks if look.agent == agent and self.useful(look)]
        if not goals:
            return
        for other in list(self.running):
            self.end(other, fails=False, overlap=False, late=[])
        for other in sorted(self.taken):
            self.take(other, fails=False)
        target = goals[which % len(goals)].files
        assert target is not None
        self.note(look=self.look(agent, "pre_rollback"))
        started = self.log()
        self.rolling = True
        self.note()
        expected = dict(self.files)
        for path in PATHS[which % 2 :]:
            if target.get(path, 0) != expected.get(path, 0):
                self.files[path] = expected[path] = target.get(path, 0)
                if path not in target:
                    del self.files[path], expected[path]
        for path, value in drift:
            self.write(path, value)
        after = None if fate == 1 else self.look(agent, "rollback", fails=fate == 2)
        ended = self.log()
        self.rolling = False
        done = Rollback(started, ended, agent, after.seq if after else None, None, fate not in (1, 2, 3))
        self.rollbacks.append((done, None if fate == 4 else expected, after))
        self.note(look=after)

    # What the code under test is given.

    def useful(self, look: Look) -> bool:
        return look.files is not None and look.key not in self.pruned

    def given_captures(self) -> list[Capture]:
        return [
            Capture(
                look.seq,
                look.agent,
                look.reason,
                look.turn,
                name(look.files) if look.files is not None and self.useful(look) else None,
                look.overlap,
            )
            for look in self.looks
        ]

    def given_rollbacks(self) -> list[Rollback]:
        return [
            Rollback(
                done.started_seq,
                done.ended_seq,
                done.agent,
                done.after_seq,
                None if expected is None else name(expected),
                done.ok,
            )
            for done, expected, _ in self.rollbacks
        ]


def name(files: Files) -> str:
    """A state's name; the differences between two are read from their names."""
    return ",".join(f"{path.decode()}={value}" for path, value in sorted(files.items()))


def differ(one: str | None, two: str | None) -> set[bytes]:
    assert one is not None
    assert two is not None
    names = {entry.split("=")[0].encode() for entry in set(one.split(",")) ^ set(two.split(",")) if entry}
    return {path for path in names if path in PATHS}


def changes(one: Files, two: Files) -> set[bytes]:
    return {path for path in PATHS if one.get(path) != two.get(path)}


def chain(world: World, target: Look) -> list[tuple[int, Look]]:
    """The looks that tell something, with their places on the tape: the target, then all later ones that were not lost."""
    return [
        (place, moment.look)
        for place, moment in enumerate(world.tape)
        if moment.look is not None
        and (moment.look is target or (moment.look.seq > target.seq and moment.look.reason != "fork"))
        and world.useful(moment.look)
    ]


def whose(world: World, agent: str, start: int, end: int) -> str | None:
    """The agent's turn that was the only thing going on in every moment between two places of the tape, or None."""
    turns: set[str] = set()
    for moment in world.tape[start:end]:
        others = any(found for owner, found in moment.turns.items() if owner != agent)
        own = moment.turns.get(agent, frozenset())
        if others or moment.taken or moment.rolling or len(own) != 1:
            return None
        turns.update(own)
    return turns.pop() if len(turns) == 1 else None


def obvious(world: World, agent: str, target: Look) -> dict[bytes, PathClass]:
    """The classes, moment by moment."""
    assert target.files is not None
    found = chain(world, target)
    tainted: set[bytes] = set()
    turns: set[str] = set()
    by_after = {after.seq: (done, expected) for done, expected, after in world.rollbacks if after is not None}
    for (start, one), (end, two) in pairwise(found):
        assert one.files is not None
        assert two.files is not None
        lost = any(
            moment.look is not None and moment.look.reason != "fork" and not world.useful(moment.look)
            for moment in world.tape[start + 1 : end]
        )
        done, expected = by_after.get(two.seq, (None, None))
        if (
            done is not None
            and done.ok
            and expected is not None
            and not lost
            and one.reason == "pre_rollback"
        ):
            # What the rollback wrote, as it wrote it, is its own. The rest is somebody's.
            tainted |= changes(expected, two.files)
            continue
        turn = None if lost else whose(world, agent, start, end)
        # A turn_end that came late enough to see the next turn has seen that turn's beginning, which nothing marks.
        if turn is None or (one.agent == agent and one.reason == "turn_end"):
            tainted |= changes(one.files, two.files)
        else:
            turns.add(turn)
    last = found[-1][1].files
    assert last is not None
    tainted |= changes(last, world.files)
    named = {path for owner, turn, path in world.edits if owner == agent and turn in turns}
    return {
        path: PathClass.OUTSIDE if path in tainted else (PathClass.AGENT if path in named else PathClass.TURN)
        for path in changes(target.files, world.files)
    }


def asked(world: World, agent: str, target: Look) -> tuple[dict[bytes, PathClass], list[Window]]:
    """The classes by the code under test, and its windows."""
    now = Capture(world.seq + 1, agent, "now", None, name(world.files))
    found = windows(
        world.given_captures(),
        world.spans.values(),
        world.given_rollbacks(),
        agent=agent,
        target_seq=target.seq,
        now=now,
    )
    assert found[0].before.seq == target.seq
    assert found[-1].after == now
    assert found[-1].kind is WindowKind.GAP
    edits = [(turn, path) for owner, turn, path in world.edits if owner == agent]
    assert target.files is not None
    changed = [(window, differ(window.before.state, window.after.state)) for window in found]
    return classify(changed, edits, changes(target.files, world.files)), found


def strangers(world: World, agent: str, target: Look) -> set[bytes]:
    """Paths that somebody certainly wrote outside the agent's turn, and that the next look saw changed.

    It needs neither windows nor reasons: one write, the last look before it, the first look after it.
    """
    found = [*chain(world, target), (len(world.tape), None)]
    meant = {
        after.seq: expected for done, expected, after in world.rollbacks if after is not None and done.ok
    }
    seen = set()
    for (start, one), (end, two) in pairwise(found):
        assert one is not None
        assert one.files is not None
        before, after = one.files, world.files if two is None else two.files
        assert after is not None
        if two is not None and two.reason == "rollback" and one.reason == "pre_rollback":
            expected = meant.get(two.seq)
            before = before if expected is None else expected
        for place in range(start + 1, end):
            moment, until = world.tape[place], world.tape[place - 1]
            if (
                moment.wrote is not None
                and not until.turns.get(agent)
                and moment.wrote in changes(before, after)
            ):
                seen.add(moment.wrote)
    return seen


paths = st.sampled_from(PATHS)
some_values = st.integers(0, 3)
writes = st.lists(st.tuples(paths, some_values), max_size=2)
who = st.sampled_from(("a1", "a1", "a1", "a2", "a2", "a3", "a4"))
rarely = st.sampled_from((True, False, False, False))
steps = st.one_of(
    st.tuples(st.just("write"), paths, some_values),
    st.tuples(st.just("edit"), who, paths, some_values),
    st.tuples(st.just("begin"), who, rarely, rarely),
    st.tuples(st.just("begin"), who, rarely, rarely),
    st.tuples(st.just("end"), who, rarely, rarely, writes),
    st.tuples(st.just("end"), who, rarely, rarely, writes),
    st.tuples(st.just("manual"), who, rarely),
    st.tuples(st.just("take"), who, rarely),
    st.tuples(st.just("fork"), who, st.integers(0, 9)),
    st.tuples(st.just("prune"), st.integers(0, 40)),
    st.tuples(st.just("roll_back"), who, st.integers(0, 9), st.integers(0, 9), writes),
)


def play(world: World, story: list[tuple[object, ...]]) -> None:
    for kind, *rest in story:
        match kind, *rest:
            case "write", bytes(path), int(value):
                world.write(path, value)
            case "prune", int(which):
                world.prune(which)
            case _, str(agent), *_ if agent not in world.agents:
                continue
            case "edit", str(agent), bytes(path), int(value):
                world.edit(agent, path, value)
            case "begin", str(agent), bool(own), bool(fails):
                world.begin(agent, own=own, fails=fails)
            case "end", str(agent), bool(fails), bool(overlap), list(late):
                world.end(agent, fails=fails, overlap=overlap, late=late)
            case "manual", str(agent), bool(fails):
                world.manual(agent, fails=fails)
            case "take", str(agent), bool(fails):
                world.take(agent, fails=fails)
            case "fork", str(agent), int(which):
                world.fork(agent, which)
            case "roll_back", str(agent), int(which), int(fate), list(drift):
                world.roll_back(agent, which, fate, drift)
            case _:
                raise AssertionError(kind)


def check(story: list[tuple[object, ...]]) -> None:
    """Play a history and go back to every checkpoint in it."""
    world = World()
    play(world, story)
    for target in world.looks:
        if not world.useful(target):
            continue
        found, seen = asked(world, target.agent, target)
        for window in seen:
            event(f"{window.kind} {window.reason}")
        assert found == obvious(world, target.agent, target), f"back to {target}"
        wrong = {
            path for path in strangers(world, target.agent, target) if found.get(path, "outside") != "outside"
        }
        assert not wrong, f"back to {target}: somebody's work comes out as the agent's"


stories = st.lists(steps, min_size=10, max_size=50)


@settings(max_examples=500, deadline=None)
@given(story=stories)
@pytest.mark.contract(
    "V-007", *(f"V-{n}" for n in range(230, 245)), "V-177", "V-364", "V-374", "A-09", "A-10", "A-11"
)
def test_the_code_and_the_obvious_model_agree(story: list[tuple[object, ...]]) -> None:
    check(story)


@pytest.mark.explore
@settings(max_examples=20_000, deadline=None)
@given(story=stories)
def test_the_code_and_the_obvious_model_agree_for_long(story: list[tuple[object, ...]]) -> None:
    check(story)


def test_the_model_knows_the_example() -> None:
    """The model itself: an agent's turn, a person's edit between turns, a command in the next turn."""
    world = World()
    world.begin("a1", own=False, fails=False)
    target = world.looks[0]
    world.edit("a1", b"a", 1)
    world.end("a1", fails=False, overlap=False, late=[])
    world.write(b"b", 1)
    world.begin("a1", own=False, fails=False)
    world.write(b"d/c", 2)
    world.end("a1", fails=False, overlap=False, late=[])
    expected = {b"a": PathClass.AGENT, b"b": PathClass.OUTSIDE, b"d/c": PathClass.TURN}
    assert obvious(world, "a1", target) == expected == asked(world, "a1", target)[0]
    assert strangers(world, "a1", target) == {b"b"}
