"""The file lock: one holder, in order, whatever dies."""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.children import Child
from turnback.disk import lock as lock_module
from turnback.disk.lock import FileLock
from turnback.disk.tickets import Ticket
from turnback.errors import Failed, TimedOut

HOLD = """
from turnback.disk.lock import FileLock
lock = FileLock(sys.argv[1], "holding for a test")
lock.acquire()
say("held")
hear()
lock.release()
"""

# Says "in line" as soon as its ticket is drawn, "held" when it has the lock, and gives it back at a word.
WAIT = """
from turnback.disk import lock as module
from turnback.disk.tickets import Ticket
class Telling(Ticket):
    @classmethod
    def draw(cls, folder):
        ticket = super().draw(folder)
        say("in line")
        return ticket
module.Ticket = Telling
lock = module.FileLock(sys.argv[1])
lock.acquire()
say("held")
hear()
lock.release()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "tree.lock")


@contextmanager
def waiting(lock: FileLock, monkeypatch: pytest.MonkeyPatch, **options: float) -> Iterator[threading.Event]:
    """A thread that waits for the lock, has its ticket when the body begins, and gives the lock back once it has had it."""
    drawn, had = threading.Event(), threading.Event()

    class Telling(Ticket):
        @classmethod
        def draw(cls, folder: str) -> "Telling | None":
            ticket = super().draw(folder)
            drawn.set()
            return ticket

    def wait() -> None:
        lock.acquire(**options)
        had.set()
        lock.release()

    monkeypatch.setattr(lock_module, "Ticket", Telling)
    thread = threading.Thread(target=wait)
    thread.start()
    assert drawn.wait(30)
    monkeypatch.setattr(lock_module, "Ticket", Ticket)
    yield had
    thread.join(30)
    assert not thread.is_alive()


# --- one holder ----------------------------------------------------------------------------------------------------


def test_only_one_of_two_holds_it(path: str) -> None:
    """While one object holds the lock another gets a plain no, and a yes as soon as it is given back."""
    first, second = FileLock(path), FileLock(path)
    with first:
        assert first.held
        assert not second.try_acquire()
        assert not second.held
    assert second.try_acquire()
    second.release()


def test_forty_threads_lose_no_count(path: str) -> None:
    """Forty threads with an object each add to one number, each reading it before it writes: none is lost."""
    total = 0
    begin = threading.Barrier(40)

    def add() -> None:
        nonlocal total
        lock = FileLock(path)
        begin.wait()
        for _ in range(5):
            with lock:
                seen = total
                os.stat(path)  # lets other threads run
                total = seen + 1

    threads = [threading.Thread(target=add) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total == 200
    assert os.listdir(f"{path}.queue") == []


def test_threads_may_share_one_object(path: str) -> None:
    """Eight threads that use the same object take turns like threads with one each."""
    lock = FileLock(path)
    inside, most = 0, 0
    begin = threading.Barrier(8)

    def enter() -> None:
        nonlocal inside, most
        begin.wait()
        for _ in range(10):
            with lock:
                inside += 1
                most = max(most, inside)
                os.stat(path)
                inside -= 1

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_processes_lose_no_count(path: str, tmp_path: Path) -> None:
    """Four processes that each add a hundred to a number in a file come to four hundred."""
    number = tmp_path / "number"
    number.write_text("0")
    program = """
from turnback.disk.lock import FileLock
lock = FileLock(sys.argv[1], timeout=60)
say("ready"); hear()
for _ in range(100):
    with lock:
        with open(sys.argv[2]) as file: seen = int(file.read())
        with open(sys.argv[2], "w") as file: file.write(str(seen + 1))
"""
    children = [Child(program, path, str(number)) for _ in range(4)]
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.say("go")
    for child in children:
        with child:
            child.finish()
    assert number.read_text() == "400"


def test_taking_it_twice_is_an_error_and_not_a_wait(path: str) -> None:
    """The thread that has the lock is told that it has, instead of waiting for itself for ever."""
    with FileLock(path) as lock:
        with pytest.raises(RuntimeError, match="this very thread"):
            lock.acquire()
        with pytest.raises(RuntimeError, match="this very thread"):
            lock.try_acquire()
    with pytest.raises(RuntimeError, match="not held"):
        lock.release()


# --- in order ------------------------------------------------------------------------------------------------------


def test_processes_get_it_in_the_order_they_came(path: str) -> None:
    """Five processes queue up one after another behind a holder, and get the lock one after another in that order."""
    lock = FileLock(path)
    lock.acquire()
    children = []
    for _ in range(5):
        child = Child(WAIT, path)
        assert child.hear() == "in line"
        children.append(child)
    lock.release()
    for child in children:
        with child:
            assert child.hear() == "held"
            assert not lock.try_acquire()
            child.say("give it back")
            child.finish()
    assert lock.try_acquire()
    lock.release()


def test_a_newcomer_does_not_pass_a_ticket(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A free lock with somebody in line is not free for somebody who has just come."""
    lock = FileLock(path)
    ticket = Ticket.draw(f"{path}.queue")
    assert ticket is not None
    assert not lock.try_acquire()
    with waiting(lock, monkeypatch) as had:
        assert not had.is_set()
        ticket.give_up()
        assert had.wait(30)


def test_a_dead_waiter_holds_nobody_up(path: str) -> None:
    """Of two processes in line the first is killed; when the lock is given back the second has it at once."""
    lock = FileLock(path)
    lock.acquire()
    with Child(WAIT, path) as first, Child(WAIT, path) as second:
        assert first.hear() == "in line"
        assert second.hear() == "in line"
        first.kill()
        lock.release()
        assert second.hear() == "held"
        second.say("give it back")
        second.finish()
    assert lock.try_acquire()
    lock.release()


def test_a_line_of_the_dead_is_no_line(path: str) -> None:
    """When everybody in line is dead, a newcomer takes the free lock without waiting, and their tickets go."""
    with Child(HOLD, path) as holder:
        assert holder.hear() == "held"
        with Child(WAIT, path) as waiter:
            assert waiter.hear() == "in line"
            waiter.kill()
        holder.say("give it back")
        holder.finish()
    assert len(os.listdir(f"{path}.queue")) == 1
    lock = FileLock(path)
    assert lock.try_acquire()
    assert os.listdir(f"{path}.queue") == []
    lock.release()


def test_a_killed_holder_leaves_no_stale_lock(path: str) -> None:
    """A holder that is killed has given the lock back, and nobody is said to hold it."""
    lock = FileLock(path)
    with Child(HOLD, path) as holder:
        assert holder.hear() == "held"
        note = lock.held_by_other()
        assert note is not None
        assert note["pid"] == holder.process.pid
        assert not lock.try_acquire()
        holder.kill()
    assert lock.held_by_other() is None
    assert lock.try_acquire()
    lock.release()


def test_a_forked_child_does_not_keep_its_dead_parents_lock(path: str) -> None:
    """A process forks while it holds the lock and has a ticket, and is killed: both are free although the child lives on."""
    program = """
from turnback.disk.lock import FileLock
from turnback.disk.tickets import Ticket
lock = FileLock(sys.argv[1])
lock.acquire()
ticket = Ticket.draw(sys.argv[1] + ".queue")
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    say(f"child {lock.held}")
    os.read(reading, 1)
    os._exit(0)
hear()
"""
    with Child(program, path) as parent:
        assert parent.hear() == "child False"
        parent.kill()
        lock = FileLock(path)
        lock.acquire(timeout=30)
        lock.release()


def test_an_interrupted_waiter_leaves_the_line(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is interrupted while waiting takes the ticket along, so that nobody waits behind it."""

    def interrupted(ahead: str, seconds: float | None) -> None:
        raise KeyboardInterrupt

    before = Ticket.draw(f"{path}.queue")
    assert before is not None
    monkeypatch.setattr(lock_module, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        FileLock(path).acquire()
    assert os.listdir(f"{path}.queue") == [before.name]
    before.give_up()


def test_a_fifo_that_was_never_in_line_goes_after_an_hour(path: str) -> None:
    """A fifo that a process left between making it and getting in line is removed, a fresh one is not."""
    folder = f"{path}.queue"
    os.mkdir(folder)
    fresh = f".{time.monotonic_ns():020d}-1-1"
    ages = [f".{0:020d}-1-1", f".{1 << 62:020d}-1-1", fresh, ".foreign"]
    for name in ages:
        os.mkfifo(os.path.join(folder, name))
    lock = FileLock(path)
    with lock:
        left = set(os.listdir(folder))
    started_within_the_hour = time.monotonic() < 3600
    assert left == {fresh, ".foreign"} | ({ages[0]} if started_within_the_hour else set())


def test_a_lock_that_is_forgotten_is_given_back(path: str) -> None:
    """When the object that holds the lock is let go, the lock is free."""
    lock = FileLock(path)
    lock.acquire()
    del lock
    assert FileLock(path).held_by_other() is None
    again = FileLock(path)
    assert again.try_acquire()
    again.release()


# --- limits and messages -------------------------------------------------------------------------------------------


def test_waiting_ends_with_who_has_it(path: str) -> None:
    """A wait that runs out says who holds the lock, since when and for what, and leaves no ticket behind."""
    with Child(HOLD, path) as holder:
        assert holder.hear() == "held"
        lock = FileLock(path)
        with pytest.raises(TimedOut) as caught:
            lock.acquire(timeout=0.01)
        assert caught.value.code == "timeout.lock"
        assert caught.value.data["path"] == path
        assert caught.value.data["holder"]["pid"] == holder.process.pid
        assert "holding for a test" in caught.value.message
        assert str(holder.process.pid) in caught.value.message
        assert os.listdir(f"{path}.queue") == []


def test_waiting_in_line_runs_out_too(path: str) -> None:
    """A wait behind a ticket, with the lock itself free, runs out and says that others wait."""
    before = Ticket.draw(f"{path}.queue")
    assert before is not None
    with pytest.raises(TimedOut, match="others that wait in line"):
        FileLock(path).acquire(timeout=0.01)
    before.give_up()


def test_with_waits_as_long_as_the_object_was_told(path: str) -> None:
    """The limit that an object is made with holds for its ``with``."""
    with FileLock(path), pytest.raises(TimedOut), FileLock(path, timeout=0.0):
        pytest.fail("two holders")


def test_the_note_names_the_holder_alone(path: str) -> None:
    """There is a note while another holds the lock, and none for the holder itself, for a free lock, or for no file."""
    lock, other = FileLock(path, "rollback of a2"), FileLock(path)
    assert other.held_by_other() is None
    with lock:
        note = other.held_by_other()
        assert note is not None
        assert (note["pid"], note["purpose"]) == (os.getpid(), "rollback of a2")
        assert note["since"].endswith("Z")
        assert lock.held_by_other() is None
    assert other.held_by_other() is None


def test_a_purpose_that_does_not_fit_is_left_out(path: str) -> None:
    """A note has one length; a purpose that is too long costs the purpose and not the note."""
    with FileLock(path, "x" * 1000):
        note = FileLock(path).held_by_other()
    assert note is not None
    assert (note["pid"], note["purpose"]) == (os.getpid(), "")


def test_a_note_that_cannot_be_read_is_still_a_holder(path: str) -> None:
    """A lock that is held under a foreign note is held, by somebody unknown."""
    with FileLock(path):
        Path(path).write_bytes(b'["not", "ours"]'.ljust(256))
        note = FileLock(path).held_by_other()
    assert note == {"pid": 0, "since": "an unknown time", "purpose": ""}


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    """A lock in a folder that is not there fails with the folder's name."""
    with pytest.raises(Failed, match="is gone") as caught:
        FileLock(str(tmp_path / "gone" / "x.lock")).acquire()
    assert caught.value.code == "failed.state_folder"


def test_a_filesystem_without_locks_is_said(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel has no locks the error says so; nobody goes on without one."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(Failed, match="can't be locked"):
        FileLock(path).acquire()


def test_without_fifos_it_still_excludes(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a filesystem without fifos there is no order, but there is one holder and the wait ends."""

    def refuse(name: str, mode: int) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "mkfifo", refuse)
    lock = FileLock(path)
    lock.acquire()
    with pytest.raises(TimedOut):
        FileLock(path).acquire(timeout=0.001)
    with waiting(FileLock(path), monkeypatch) as had:
        assert not had.is_set()
        lock.release()
        assert had.wait(30)


# --- the file goes ------------------------------------------------------------------------------------------------


def test_a_file_deleted_while_waiting_is_not_the_lock(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody deletes the lock file under a waiter: it ends up holding the file that is there, as everybody after it will."""
    holder = FileLock(path)
    holder.acquire()
    with waiting(FileLock(path), monkeypatch) as had:
        os.unlink(path)
        assert had.wait(30)
    holder.release()
    assert os.path.exists(path)


def test_a_file_deleted_between_opening_and_locking_is_not_the_lock(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file goes in the very moment before it is locked: the lock is taken on its successor."""
    real = fcntl.flock
    deleted: list[str] = []

    def flock(descriptor: int, operation: int) -> None:
        if not deleted:
            os.unlink(path)
            deleted.append(path)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = FileLock(path)
    lock.acquire()
    monkeypatch.undo()
    assert deleted
    assert not FileLock(path).try_acquire()
    lock.release()


def test_a_link_in_the_files_place_is_refused(path: str, tmp_path: Path) -> None:
    """A lock file that is a symbolic link is somebody else's trap."""
    os.symlink(tmp_path / "elsewhere", path)
    with pytest.raises(Failed, match="symbolic link"):
        FileLock(path).acquire()
    assert not (tmp_path / "elsewhere").exists()


def test_the_files_are_private(path: str) -> None:
    """The lock file is 0600 and the line's folder 0700, whatever the umask lets others do."""
    before = os.umask(0)
    try:
        with FileLock(path), pytest.raises(TimedOut):
            FileLock(path).acquire(timeout=0.0)
    finally:
        os.umask(before)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(f"{path}.queue").st_mode & 0o777 == 0o700
