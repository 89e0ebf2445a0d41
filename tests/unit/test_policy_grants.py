"""Principals, grants, and what agents may roll back."""

from __future__ import annotations

import pytest

from turnback.errors import TurnbackError
from turnback.policy.grants import VERBS, Grant, Principal, agent_caller, check_grant, may_roll_back

PERSON, A1 = Principal.person(), Principal.agent("a1")
DESCENDANTS = frozenset({"child", "grandchild"})


@pytest.mark.contract("V-451")
@pytest.mark.parametrize(("text", "principal"), [("person", PERSON), ("agent:a1", A1)])
def test_text_form(text: str, principal: Principal) -> None:
    assert Principal.parse(text) == principal
    assert str(principal) == text
    assert hash(principal) == hash(Principal.parse(text))
    assert principal.is_person is (text == "person")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "principal"),
        ("root", "principal"),
        ("agent", "principal"),
        ("person:a1", "principal"),
        ("PERSON", "principal"),
        ("agent:", "agent"),
        ("agent:A", "agent"),
        ("agent:../x", "agent"),
    ],
)
def test_what_is_no_principal(text: str, code: str) -> None:
    with pytest.raises(TurnbackError) as caught:
        Principal.parse(text)
    assert caught.value.code == f"invalid_params.{code}"


@pytest.mark.parametrize(("kind", "agent"), [("person", "a1"), ("agent", None), ("root", None)])
def test_a_principal_is_whole(kind: str, agent: str | None) -> None:
    with pytest.raises(TurnbackError):
        Principal(kind, agent)  # type: ignore[arg-type]


@pytest.mark.contract("V-450")
@pytest.mark.parametrize(
    ("verb", "held", "fine"),
    [
        ("agent.checkpoints", None, False),
        ("agent.checkpoints", Grant.READ, True),
        ("agent.checkpoints", Grant.WRITE, True),
        ("agent.checkpoint_diff", Grant.READ, True),
        ("agent.checkpoint", Grant.READ, False),
        ("agent.checkpoint", Grant.WRITE, True),
        ("agent.rollback", Grant.READ, False),
        ("agent.rollback", Grant.WRITE, True),
        ("agent.rollback", None, False),
        ("agent.unheard_of", Grant.READ, False),
        ("agent.unheard_of", Grant.WRITE, True),
    ],
)
def test_grants(verb: str, held: Grant | None, fine: bool) -> None:
    if fine:
        check_grant(verb, "a2", held)
        return
    with pytest.raises(TurnbackError) as caught:
        check_grant(verb, "a2", held)
    assert (caught.value.code, caught.value.exit_code) == ("denied.grant", 4)
    assert str(VERBS.get(verb, "write")) in caught.value.message


@pytest.mark.contract("V-195", "V-452", "V-453", "A-17")
@pytest.mark.parametrize(
    ("principal", "target", "guarded", "dry_run", "may"),
    [
        (PERSON, "anyone", True, False, True),
        (PERSON, "anyone", False, False, True),
        (A1, "child", False, False, True),
        (A1, "grandchild", False, False, True),
        (A1, "child", True, False, False),
        (A1, "sibling", False, False, False),
        (A1, "parent", False, False, False),
        (A1, "a1", False, False, False),
        (A1, "child", True, True, True),
        (A1, "sibling", True, True, True),
    ],
)
def test_who_may_roll_back(
    principal: Principal, target: str, guarded: bool, dry_run: bool, may: bool
) -> None:
    assert may_roll_back(principal, target, DESCENDANTS, guarded=guarded, dry_run=dry_run) is may


@pytest.mark.contract("V-422")
def test_the_refusal() -> None:
    for guarded in (True, False):
        error = agent_caller(A1, "a2", guarded=guarded)
        assert (error.code, error.exit_code, error.data) == ("denied.agent_caller", 4, {})
        assert "a person" in error.message
        assert "dry run" in error.message
