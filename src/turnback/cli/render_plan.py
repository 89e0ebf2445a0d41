"""A rollback as a person reads it: the plan before, the outcome after (V-472, V-476).

The order is fixed: what somebody else changed stands first and marked, since it is what a person would miss most; then the agent's
files, what stays and why, HEAD, the conversation, and who else is concerned. Everything is taken from the result's JSON members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnback.cli.render import count, path_text, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnback.cli.terminal import Terminal

_CLASSES = (
    ("outside", "changed outside the agent's turns, perhaps your own work"),
    ("agent", "named by an edit of the agent"),
    ("turn", "changed while a turn of the agent ran"),
)
# The change that the rollback makes.
_DEEDS = {"create": "make again", "modify": "restore", "delete": "delete"}
_DONE = {"create": "made again", "modify": "restored", "delete": "deleted"}
_REASONS = {
    "outside": "changed outside the agent's turns, kept",
    "too_big": "too big to be saved",
    "skip_worktree": "outside the sparse checkout",
    "gitlink": "a repository of its own",
    "ignored": "ignored, so it was never saved",
    "ignored_in_the_way": "an ignored file or folder is in the way, and nothing else holds it",
    "unreadable": "could not be read",
    "not_regular": "neither a file nor a link",
    "nested_unborn": "a repository without a commit",
    "invalid_path": "a name that git refuses",
    "filter": "its filter could not run",
    "changed": "somebody saved it meanwhile",
}


def plan_lines(plan: dict[str, Any], terminal: Terminal) -> Iterator[str]:
    """What going back would do. Says at the end that nothing has changed yet."""
    yield terminal.style(f"Going back to {plan['checkpoint']} of {plan['agent']} would:", "bold")
    yield from _body(plan, terminal, _DEEDS)
    yield "Nothing has changed yet."


def done_lines(done: dict[str, Any], terminal: Terminal) -> Iterator[str]:
    """What going back did: the transcript's row (V-476), the dropped turns folded under it, then what did not go as planned."""
    number = sum(len(repo["files"]) for repo in done["repos"])
    talk = done["conversation"]
    through = talk["through_turn"]
    when = f"after {through}" if through else "before the first turn"
    with_talk = "conversation too" if talk["rewinds"] or talk["drops"] else "files only"
    row = f"↺ Rolled back to {done['checkpoint']} ({when}) · {count(number, 'file')} · {with_talk} · undo: {done['safety']}"
    yield terminal.style(row, "bold")
    if talk["drops"]:
        yield f"  dropped: {', '.join(talk['drops'])}"
    yield from _body(done, terminal, _DONE)
    if not done["exact"]:
        yield terminal.style(
            "Something else wrote here meanwhile: the files are not exactly as planned.", "gold"
        )


def is_empty(plan: dict[str, Any]) -> bool:
    """Whether a plan would change nothing at all."""
    moves = any(repo["files"] or repo["head"]["moves"] for repo in plan["repos"])
    return not moves and not plan["conversation"]["rewinds"] and not plan["conversation"]["drops"]


def _body(result: dict[str, Any], terminal: Terminal, deeds: dict[str, str]) -> Iterator[str]:
    several = len(result["repos"]) > 1
    for repo in result["repos"]:
        if several:
            yield f"in {visible(repo['repo'])} ({visible(repo['path'])}):"
        yield from _files(repo, terminal, deeds)
        yield from _left(repo)
        yield from _head(repo, done=deeds is _DONE)
    yield from _conversation(result, done=deeds is _DONE)
    if result["shared_with"]:
        yield f"  {_names(result['shared_with'])} in the same folder: told before the next prompt."
    if result["children"]:
        yield f"  {_names(result['children'])}, started by this agent: not rolled back."


def _files(repo: dict[str, Any], terminal: Terminal, deeds: dict[str, str]) -> Iterator[str]:
    if not repo["files"]:
        yield "  no file" + (" was changed" if deeds is _DONE else " to change")
    for kind, words in _CLASSES:
        found = [item for item in repo["files"] if item["class"] == kind]
        if not found:
            continue
        mark = "!" if kind == "outside" else " "
        head = f"  {words}:"
        yield terminal.style(head, "gold") if kind == "outside" else head
        for item in found:
            merged = " (merged: the agent's part is taken out)" if item.get("merged") else ""
            line = f"  {mark} {deeds[item['change']]:10} {path_text(item)}{merged}"
            yield terminal.style(line, "gold") if kind == "outside" else line


def _left(repo: dict[str, Any]) -> Iterator[str]:
    if repo["left"]:
        yield "  left as it is:"
    for item in repo["left"]:
        reason = _REASONS.get(item["reason"], item["reason"])
        detail = f", {visible(str(item['detail']))}" if item.get("detail") else ""
        yield f"    {path_text(item)} ({reason}{detail})"
    if repo["ignored_edits"]:
        yield "  edited by the agent but ignored, so it can't be restored:"
        yield from (f"    {path_text(item)}" for item in repo["ignored_edits"])
    for warning in repo.get("warnings") or ():
        yield f"  note: {visible(warning)}"
    for kept in repo.get("kept") or ():
        yield f"  kept aside: {path_text(kept)} (what somebody saved while the files were written)"


def _head(repo: dict[str, Any], *, done: bool) -> Iterator[str]:
    head = repo["head"]
    at = (head["from"] or "")[:12]
    if head["moves"]:
        verb = "moved back" if done else "moves back"
        held = f"{count(head['commits'], 'commit')} after it {'stays' if head['commits'] == 1 else 'stay'}"
        yield f"  HEAD {verb} from {at} to {(head['to'] or '')[:12]}; {held} reachable from the safety checkpoint"
    elif at:
        yield f"  HEAD {'stayed' if done else 'stays'} at {at}"


def _conversation(result: dict[str, Any], *, done: bool) -> Iterator[str]:
    talk = result["conversation"]
    if talk["rewinds"] or talk["drops"]:
        point = f"the end of {talk['through_turn']}" if talk["through_turn"] else "before its first turn"
        dropped = f"; dropped: {', '.join(talk['drops'])}" if talk["drops"] else ""
        yield f"  the conversation {'went' if done else 'goes'} back to {point}{dropped}"
    elif result["restore"] == "files":
        told = "will be told" if done else "would be told"
        yield f"  the conversation stays as it is; the agent {told} with its next prompt"
    else:
        yield "  the conversation is at that point already"


def _names(ids: list[str]) -> str:
    return ", ".join(ids)
