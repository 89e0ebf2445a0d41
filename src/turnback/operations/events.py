"""The published events of a workspace, chosen by type and resource (11.2, V-023)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from turnback.clock import stamp
from turnback.errors import InvalidParams
from turnback.records import events as shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from turnback.operations.context import Context

_SELECTOR = re.compile(r"[a-z_]+(\.[a-z_]+)*(\.\*)?")
_RESOURCE = re.compile(r"agent:[a-z0-9][a-z0-9_-]{0,63}")


def published(
    context: Context,
    types: Sequence[str] | None,
    resources: Sequence[str] | None,
    *,
    after: int,
    follow: bool,
    stop: Callable[[], bool] | None,
) -> Iterator[dict[str, Any]]:
    """Events in log order. The selectors and the log are checked at once, not when the first event is asked for.

    Raises:
        InvalidParams: ``invalid_params.types``, ``.resources``.
        TurnbackError: the log can't be read (as ``EventLog.open``).
    """
    for parameter, given in (("types", types), ("resources", resources)):
        if isinstance(given, str):
            raise InvalidParams(parameter, f"{given!r} is one text; give a list of them")
    for selector in types or ():
        if not _SELECTOR.fullmatch(selector):
            raise InvalidParams(
                "types",
                f"{selector!r} is no selector; write an exact name or a prefix and .* such as agent.*",
            )
    for resource in resources or ():
        if not _RESOURCE.fullmatch(resource):
            raise InvalidParams("resources", f"{resource!r} is no resource; write agent: and an agent's id")
    context.state()
    return _chosen(context, types, resources, after=after, follow=follow, stop=stop)


def _chosen(
    context: Context,
    types: Sequence[str] | None,
    resources: Sequence[str] | None,
    *,
    after: int,
    follow: bool,
    stop: Callable[[], bool] | None,
) -> Iterator[dict[str, Any]]:
    records = context.log.follow(after, stop or (lambda: False)) if follow else context.log.records(after)
    for record in records:
        event = shapes.published(record, context.log.source)
        if event is None or not selected(event["type"], types):
            continue
        if resources is not None and f"agent:{event['data']['agent']}" not in resources:
            continue
        event["ts"] = stamp(record.ts)
        yield event


def selected(name: str, types: Sequence[str] | None) -> bool:
    """Whether a type matches any selector: the exact name, or everything below ``prefix.*``."""
    if types is None:
        return True
    return any(
        name == selector or (selector.endswith(".*") and name.startswith(selector[:-1])) for selector in types
    )
