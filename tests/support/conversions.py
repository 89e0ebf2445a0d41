"""Files of every content under every attribute, and the proof that exact bytes are kept where git can't give them back."""

from __future__ import annotations

import hashlib
import itertools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from support.captures import Captures, Shot
    from support.git_repo import GitRepo

# One folder for each; the attributes are those of the folder.
ATTRIBUTES = {
    "none": "",
    "text": "* text",
    "auto": "* text=auto",
    "binary": "* binary",
    "no-text": "* -text",
    "lf": "* eol=lf",
    "crlf": "* eol=crlf",
    "auto-crlf": "* text=auto eol=crlf",
    "auto-lf": "* text=auto eol=lf",
    "text-crlf": "* text eol=crlf",
    "odd": "* text=odd crlf=input",
    "old": "* crlf",
    "old-input": "* crlf=input",
    "ident": "* ident",
    "ident-crlf": "* ident text eol=crlf",
    "macro": "* mine",
}
CONTENTS = {
    "lf": b"one\ntwo\n",
    "crlf": b"one\r\ntwo\r\n",
    "mixed": b"one\r\ntwo\n",
    "cr": b"one\rtwo\r",
    "crcrlf": b"one\r\r\ntwo\n",
    "nul": b"one\r\n\0two\r\n",
    "short": b"one",
    "id": b"$Id$\r\n",
    "ids": b"$Id: abc $ and $Id: def $\n$Identity$ $Id: over\nlines $\n",
}
INDEXED = {"new": None, "was-lf": b"was\n", "was-crlf": b"was\r\n", "was-mixed": b"was\r\nso\n"}
CONFIGS = [*itertools.product(("true", "input", "false"), ("lf", "crlf", "native")), ("0", "LF"), ("1", "")]


def fill(repo: GitRepo) -> None:
    """A file for every combination, over an index that has what was there before."""
    repo.write(".gitattributes", "[attr]mine text eol=crlf\n")
    rows = []
    for folder, rule in ATTRIBUTES.items():
        repo.write(f"{folder}/.gitattributes", f".gitattributes -text\n{rule}\n" if rule else "# nothing\n")
        for before, content in itertools.product(INDEXED, CONTENTS):
            repo.write(f"{folder}/{before}/{content}", CONTENTS[content])
    for before, data in INDEXED.items():
        if data is not None:
            oid = repo.git("hash-object", "-w", "--stdin", data=data).decode().strip()
            rows += [
                f"100644 {oid}\t{folder}/{before}/{content}\n"
                for folder in ATTRIBUTES
                for content in CONTENTS
            ]
    repo.git("update-index", "--index-info", data="".join(rows).encode())


def written_out(repo: GitRepo, shot: Shot, place: Path) -> dict[bytes, bytes]:
    """Every plain file of a checkpoint as git writes it, under the attributes of the tree."""
    extra = {"GIT_INDEX_FILE": str(place.with_suffix(".index"))}
    repo.git("read-tree", shot.commit, extra=extra)
    repo.git("checkout-index", "-a", "-f", "-q", f"--prefix={place}/", extra=extra)
    found = {}
    for path, (mode, _) in repo.ls_tree(shot.commit).items():
        if mode.startswith("100"):
            found[path] = (place / os.fsdecode(path)).read_bytes()
    return found


def assert_exact(repo: GitRepo, captures: Captures, shot: Shot, place: Path) -> None:
    """Bytes are kept beside the tree for exactly those files that git would write out differently, and they are the file's."""
    came_back = written_out(repo, shot, place)
    differing = {path for path, data in came_back.items() if data != repo.read(path)}
    kept = set(shot.raw)
    assert kept == differing, f"kept for nothing: {kept - differing}, not kept: {differing - kept}"
    for path, sha256 in shot.raw.items():
        assert captures.kept(sha256) == repo.read(path), path
        assert hashlib.sha256(repo.read(path)).hexdigest() == sha256
