"""Lists for people: checkpoints as a table (V-470), agents, and one agent told in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnback import clock
from turnback.cli.render import age, count, table, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


def cut_off_lines(agent: dict[str, Any], command: Callable[..., str]) -> list[str]:
    """What a person has to know first when the agent's last rollback was cut off (V-303); nothing otherwise.

    Args:
        agent: its members.
        command: makes a command line for this very workspace out of words.
    """
    found = agent.get("cut_off")
    if found is None:
        return []
    name, safety = agent["agent"], found["safety"]
    return [
        f"The rollback of {name} to {found['checkpoint']} was cut off, so the files may be half way.",
        f"{safety} holds the state before it: {command('undo', f'--agent={name}', safety)}",
    ]


def checkpoint_table(
    items: Sequence[dict[str, Any]], changed: Mapping[str, int | None], now: int
) -> Iterator[str]:
    """The checkpoint list, newest first: id, age, reason, turn, files changed since the one before, label; repositories when there are several.

    Args:
        items: the members of each checkpoint.
        changed: files changed since the previous one by id; None where there is none to compare with.
        now: milliseconds, for the ages.
    """
    several = any(len(item["repos"]) > 1 for item in items)
    noted = any(item.get("label") or _remarks(item) for item in items)
    heads = ["CHECKPOINT", "AGE", "REASON", "TURN", "FILES"]
    heads += ["REPOS"] if several else []
    heads += ["LABEL"] if noted else []
    rows = []
    for item in items:
        number = changed.get(item["checkpoint"])
        row = [
            item["checkpoint"],
            age(now - clock.milliseconds(item["at"])),
            item["reason"],
            item.get("turn") or "-",
            "-" if number is None else str(number),
        ]
        if several:
            row.append(" ".join(visible(repo["repo"]) for repo in item["repos"]))
        if noted:
            row.append("  ".join(filter(None, [visible(item.get("label") or ""), *_remarks(item)])))
        rows.append(row)
    return table(heads, rows)


def _remarks(item: dict[str, Any]) -> list[str]:
    skipped = sum(len(repo["skipped"]) for repo in item["repos"])
    found = [f"({count(skipped, 'path')} not saved)"] if skipped else []
    if item["mid_turn"]:
        found.append("(during the turn)")
    return found


def agent_table(items: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The agents of a workspace."""
    heads = ("AGENT", "STATE", "ISOLATION", "TURNS", "CHECKPOINTS", "FOLDER")
    rows = [
        (
            item["agent"],
            item["state"],
            item["isolation"],
            str(len(item["turns"])),
            str(item["checkpoints"]),
            " ".join(visible(tree["path"]) for tree in item["trees"]) or "-",
        )
        for item in items
    ]
    return table(heads, rows)


def agent_lines(item: dict[str, Any], command: Callable[..., str]) -> Iterator[str]:
    """One agent, its trees and its turns; a dropped turn is marked, since its files are gone and the log still has it."""
    guarded = "; a person's work may lie there, so only a person rolls it back" if item["guarded"] else ""
    yield f"{item['agent']}: {item['state']}, {item['isolation']}{guarded}"
    for tree in item["trees"]:
        yield f"  {visible(tree['repo'])}: {visible(tree['path'])}"
    if not item["trees"]:
        yield "  no repository: nothing can be saved"
    for name, words in (("shared_with", "shares a folder with"), ("children", "children")):
        if item[name]:
            yield f"  {words}: {', '.join(item[name])}"
    if item.get("parent"):
        yield f"  parent: {item['parent']}"
    yield f"  {count(item['checkpoints'], 'checkpoint')}, {count(len(item['turns']), 'turn')}"
    for turn in item["turns"]:
        ended = turn["reason"] or "running"
        dropped = ", dropped by a rollback" if turn["dropped"] else ""
        prompt = f": {_short(turn['prompt'])}" if turn.get("prompt") else ""
        yield f"    {turn['turn']} ({ended}{dropped}){prompt}"
    for line in cut_off_lines(item, command):
        yield f"  {line}"
    if item.get("note"):
        yield f"  before its next prompt it will be told: {_short(item['note'])}"


def _short(text: str, limit: int = 80) -> str:
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."
