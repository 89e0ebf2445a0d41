"""Tickets: who is next, told by fifos that die with their owners."""

import errno
import os
from pathlib import Path

import pytest

from turnback.disk.tickets import Ticket, first_ticket, wait_for
from turnback.errors import Failed


@pytest.fixture
def line(tmp_path: Path) -> str:
    return str(tmp_path / "x.queue")


def drawn(line: str) -> Ticket:
    ticket = Ticket.draw(line)
    assert ticket is not None
    return ticket


def test_a_line_has_an_order(line: str) -> None:
    """Three tickets stand one behind the other; when the middle one goes, the last one waits for the first."""
    first, second, third = drawn(line), drawn(line), drawn(line)
    assert first_ticket(line) == first.name
    assert first.ahead() is None
    assert second.ahead() == os.path.join(line, first.name)
    assert third.ahead() == os.path.join(line, second.name)
    second.give_up()
    assert third.ahead() == os.path.join(line, first.name)
    for ticket in (first, third):
        ticket.give_up()
    assert first_ticket(line) is None
    assert os.listdir(line) == []


def test_no_line_is_an_empty_line(line: str) -> None:
    """Where nobody ever waited there is nobody before us, and looking makes no folder."""
    assert first_ticket(line) is None
    assert not os.path.exists(line)


def test_a_ticket_without_an_owner_is_removed(line: str) -> None:
    """A fifo that nobody holds open belongs to a dead process: it counts for nobody and goes."""
    dead, living = drawn(line), drawn(line)
    dead.close()
    assert first_ticket(line) == living.name
    assert os.listdir(line) == [living.name]
    living.give_up()


def test_waiting_for_a_ticket_that_is_gone_is_no_wait(line: str) -> None:
    """A ticket that was given up, or whose owner died, is not waited for, however long the limit."""
    gone, dead = drawn(line), drawn(line)
    gone.give_up()
    wait_for(os.path.join(line, gone.name), 3600)
    dead.close()
    wait_for(os.path.join(line, dead.name), 3600)
    assert os.listdir(line) == []


def test_the_byte_of_an_owner_that_leaves_is_enough(line: str) -> None:
    """A ticket that was given up while a forked child still holds it open is not waited for."""
    ticket = drawn(line)
    path = os.path.join(line, ticket.name)
    copy = os.dup(ticket.descriptor)
    waiting = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    ticket.give_up()
    assert os.read(waiting, 1) == b"x"
    os.close(waiting)
    os.close(copy)


@pytest.mark.parametrize("step", ["mkfifo", "open", "rename"])
def test_where_no_ticket_can_be_made_there_is_none(
    line: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A filesystem that refuses any step of making a fifo gives no ticket, and keeps nothing."""

    def refuse(*args: object) -> int:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patch:
        patch.setattr(os, step, refuse)
        assert Ticket.draw(line) is None
    assert os.listdir(line) == []


def test_a_line_that_cannot_be_read_is_said(line: str) -> None:
    """A file where the line's folder should be is an error with its name, not an empty line."""
    Path(line).write_text("mine")
    with pytest.raises(Failed, match="can't be read: Not a directory"):
        first_ticket(line)


def test_a_ticket_that_cannot_be_read_is_said(line: str) -> None:
    """A link in a ticket's place is not followed."""
    os.mkdir(line)
    os.symlink("/nowhere", os.path.join(line, "1-1-1"))
    with pytest.raises(Failed, match=r"the ticket .* can't be read"):
        first_ticket(line)


def test_a_ticket_that_cannot_be_removed_is_said(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead ticket that stays would be looked at for ever: that is an error and no busy wait."""
    drawn(line).close()

    def refuse(path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(Failed, match="removing the ticket"):
            first_ticket(line)


def test_something_that_is_no_fifo_is_no_ticket(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or an unreadable thing among the tickets is removed like a dead one."""
    os.mkdir(line)
    Path(line, "1-1-1").write_bytes(b"")
    assert first_ticket(line) is None

    def broken(descriptor: int, count: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "read", broken)
    ticket = drawn(line)
    assert first_ticket(line) is None
    ticket.give_up()
