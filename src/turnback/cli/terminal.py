"""Where output goes and answers come from. Nothing here knows what a checkpoint is.

Text is written in the stream's own encoding, with escapes for what that can't hold; JSON is always UTF-8 bytes. A question is asked only where a
person can answer it: whoever calls checks ``interactive`` first, and an answer that never comes (end of input) is the default.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_STYLES = {"bold": "1", "red": "31", "green": "32", "gold": "33", "cyan": "36", "dim": "2"}


class OutputError(OSError):
    """The output can't be written: its disk is full. A reader who went away is a ``BrokenPipeError`` as ever."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The three streams of a run.

    Attributes:
        out, err, source: standard output, error and input, or a test's.
        tty: the output is a terminal.
        interactive: a person can be asked.
        color: styles are shown.
    """

    out: TextIO
    err: TextIO
    source: TextIO
    tty: bool = False
    interactive: bool = False
    color: bool = False

    @classmethod
    def of_process(cls, *, tty: bool = False, interactive: bool = False, color: bool = False) -> Terminal:
        """The streams of this process; one that it was started without leads nowhere."""
        return cls(
            sys.stdout or _nowhere("w"),
            sys.stderr or _nowhere("w"),
            sys.stdin or _nowhere("r"),
            tty,
            interactive,
            color,
        )

    def say(self, lines: Iterable[str] | str = "") -> None:
        """Write lines to the output."""
        _write(self.out, lines)

    def warn(self, lines: Iterable[str] | str) -> None:
        """Write lines to the error stream, after what the output holds so far."""
        with _told():
            self.out.flush()
            _write(self.err, lines)
            self.err.flush()

    def data(self, line: bytes) -> None:
        """Write one line of JSON to the output and let it go out at once: whoever follows events reads line by line."""
        buffer = getattr(self.out, "buffer", None)
        with _told():
            if buffer is None:
                self.out.write(line.decode("utf-8") + "\n")
            else:
                self.out.flush()
                buffer.write(line + b"\n")
            self.out.flush()

    def style(self, text: str, name: str) -> str:
        """The text in a style (``bold``, ``red``, ``green``, ``gold``, ``cyan``, ``dim``) where styles are shown."""
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if self.color else text

    def ask(self, question: str) -> str:
        """Ask and give the answer without the space around it, lower case; an empty text at the end of the input."""
        _put(self.out, question)
        self.out.flush()
        line = self.source.readline()
        if not line.endswith("\n"):
            self.say()
        return line.strip().lower()

    def choose(self, question: str, answers: Mapping[str, str], default: str) -> str:
        """Ask until the answer is one of these, or its first letter; nothing stands for the default.

        Args:
            question: shown with every try.
            answers: what may be typed, to what is given back.
            default: given back for an empty answer.
        """
        while True:
            typed = self.ask(question)
            if not typed:
                return default
            found = {value for word, value in answers.items() if typed in (word, word[:1])}
            if len(found) == 1:
                return found.pop()
            self.say(f"Please answer with one of: {', '.join(answers)}.")


def _nowhere(mode: Literal["r", "w"]) -> TextIO:
    return open(os.devnull, mode, encoding="utf-8")  # open for as long as the process lives


def _write(stream: TextIO, lines: Iterable[str] | str) -> None:
    for line in [lines] if isinstance(lines, str) else lines:
        _put(stream, line + "\n")


def _put(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    with _told():
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (BrokenPipeError, OutputError):
        raise
    except OSError as error:
        raise OutputError(*error.args) from error
