"""A project like the ones that people have: some twelve hundred files in a layout between Flask's and Rails', with a history.

The same bytes in every run: everything comes from the names. In it is what real projects have and small examples don't: binary assets, a vendored
library, nested ignore files with exceptions, executable scripts, links (to a file, to a folder, to nowhere), names in several scripts and
one that is not UTF-8, line endings that git converts, an empty file, a private file, and ignored files beside it all.
"""

from __future__ import annotations

import hashlib
import os
import random
import stat
from typing import TYPE_CHECKING, NamedTuple

from support.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

AREAS = ("accounts", "billing", "catalog", "delivery", "events", "forum", "gallery", "helpdesk")
KINDS = ("models", "views", "forms", "services", "tasks", "schemas")
WORDS = [
    "request", "response", "session", "token", "invoice", "customer", "order", "total",
    "render", "template", "context", "handler", "route", "cache", "index", "query",
    "result", "column", "value", "update", "remove", "create", "select", "commit",
    "branch", "folder", "record", "event", "signal", "worker", "queue",
]  # fmt: skip


class FileFacts(NamedTuple):
    """What a file or link is: ``kind`` is file or link, ``bits`` the permission bits (0 for a link), ``sha256`` of bytes or target."""

    kind: str
    bits: int
    sha256: str


def grow(path: Path) -> GitRepo:
    """Make the project with its commits, a merge and a tag; the tree is clean afterwards, but for what is ignored."""
    project = GitRepo.init(path)
    _skeleton(project)
    project.commit("A skeleton")
    _application(project)
    project.commit("The application")
    _assets(project)
    _documents(project)
    project.commit("Assets and documents")
    project.git("switch", "-q", "-c", "vendor")
    _vendored(project)
    project.commit("Take the toolkit in")
    project.git("switch", "-q", "main")
    project.write("CHANGELOG.md", "# Changes\n\n## 0.2\n\n- assets\n")
    project.delete("src/app/forum/old.py")
    project.git("mv", "src/app/helpdesk/legacy.py", "src/app/helpdesk/archive.py")
    project.commit("Tidy up")
    project.git("merge", "-q", "--no-ff", "-m", "Merge the toolkit", "vendor")
    project.git("tag", "-a", "-m", "0.2", "v0.2")
    project.write("src/app/version.py", 'VERSION = "0.3.dev"\n')
    project.commit("Begin 0.3")
    _ignored(project)
    return project


def digests(root: Path, without: Collection[bytes] = ()) -> dict[bytes, FileFacts]:
    """Every file and link below a folder, ``.git`` apart.

    Args:
        root: the folder.
        without: paths to leave out.
    """
    found: dict[bytes, FileFacts] = {}
    top = os.fsencode(root)
    for folder, folders, names in os.walk(top):
        if folder == top:
            folders[:] = [name for name in folders if name != b".git"]
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]:
            full = os.path.join(folder, name)
            path = os.path.relpath(full, top)
            if path not in without and path != b".git":
                found[path] = _facts(full)
    return found


def ignored(project: GitRepo) -> set[bytes]:
    """The files that git ignores now."""
    listed = project.git("ls-files", "-o", "-i", "-z", "--exclude-standard")
    return set(listed.split(b"\0")[:-1])


def _facts(full: bytes) -> FileFacts:
    found = os.lstat(full)
    if stat.S_ISLNK(found.st_mode):
        return FileFacts("link", 0, hashlib.sha256(os.readlink(full)).hexdigest())
    with open(full, "rb") as file:
        return FileFacts("file", stat.S_IMODE(found.st_mode), hashlib.sha256(file.read()).hexdigest())


# contents


def prose(name: str, lines: int) -> str:
    """Lines of words that depend on the name alone."""
    chance = random.Random(name)
    return "".join(" ".join(chance.choices(WORDS, k=chance.randint(3, 14))) + "\n" for _ in range(lines))


def binary(name: str, size: int) -> bytes:
    """Bytes that don't compress and depend on the name alone; the first ones make git take them for binary."""
    return b"\x89BIN\0" + random.Random(name).randbytes(size)


def _code(name: str, functions: int) -> str:
    chance = random.Random(name)
    parts = [f'"""{name}."""\n\nfrom app import registry\n']
    for number in range(functions):
        one, two = chance.choice(WORDS), chance.choice(WORDS)
        parts.append(f"\n\ndef {one}_{two}_{number}({one}, {two}=None):\n")
        parts.append(f'    """{" ".join(chance.choices(WORDS, k=6))}."""\n')
        parts.extend(f"    {word} = registry.{two}({one}, {number})\n" for word in chance.choices(WORDS, k=4))
        parts.append(f"    return {one}\n")
    return "".join(parts)


# the parts


def _skeleton(project: GitRepo) -> None:
    project.write("LICENSE", prose("LICENSE", 180))
    project.write("README.md", "# A web application\n\n" + prose("README", 40))
    project.write("CHANGELOG.md", "# Changes\n")
    project.write(".gitignore", "*.pyc\n__pycache__/\n/build/\nnode_modules/\n.env\n*.log\n!keep.log\n")
    project.write(
        ".gitattributes", "*.bat text eol=crlf\n*.png binary\n*.sh text eol=lf\nvendor/** linguist-vendored\n"
    )
    project.write(".editorconfig", "root = true\n")
    project.write("pyproject.toml", '[project]\nname = "app"\n')
    project.write("run.bat", "@echo off\r\npython -m app\r\n")
    project.write("keep.log", "kept on purpose\n")
    project.write("empty.txt", "")
    for name in ("server", "console", "setup", "migrate"):
        project.write(f"bin/{name}", f'#!/bin/sh\nexec python -m app.{name} "$@"\n', mode=0o755)
    for name in ("lint", "release", "seed"):
        project.write(f"scripts/{name}.sh", f"#!/bin/sh\nset -eu\necho {name}\n", mode=0o755)
    project.write("config/settings.toml", prose("settings", 30))
    project.write("config/local.key", "not a secret, but private\n", mode=0o600)
    project.link("config/current.toml", "settings.toml")
    project.link("public", "src/app/static")
    project.link("config/missing.toml", "../nowhere/at/all")


def _application(project: GitRepo) -> None:
    project.write("src/app/__init__.py", _code("app", 3))
    project.write("src/app/version.py", 'VERSION = "0.1"\n')
    project.write("src/app/.gitignore", "generated/\n*.tmp\n!important.tmp\n")
    project.write("src/app/important.tmp", "an exception to the rule\n")
    for area in AREAS:
        project.write(f"src/app/{area}/__init__.py", "")
        for kind in KINDS:
            for number in range(8):
                name = f"src/app/{area}/{kind}/{kind}_{number}.py"
                project.write(name, _code(name, 2 + number % 4))
            project.write(f"src/app/{area}/{kind}/__init__.py", "")
            project.write(f"tests/{area}/test_{kind}.py", _code(f"tests/{area}/{kind}", 4))
        for page in ("index", "show", "edit", "new", "_form", "_row"):
            text = f"{{% extends 'base.html' %}}\n{prose(area + page, 12)}"
            project.write(f"src/app/templates/{area}/{page}.html", text)
        for number in range(6):
            name = f"db/migrate/{area}/2026{number:04d}_{area}.sql"
            project.write(name, prose(name, 8))
    project.write("src/app/forum/old.py", _code("old", 2))
    project.write("src/app/helpdesk/legacy.py", _code("legacy", 3))
    deep = "/".join(f"level{number}" for number in range(12))
    project.write(f"src/app/{deep}/leaf.py", _code("leaf", 1))


def _assets(project: GitRepo) -> None:
    static = "src/app/static"
    for area in AREAS:
        project.write(f"{static}/css/{area}.css", prose(f"{area}.css", 60))
        project.write(f"{static}/js/{area}.js", prose(f"{area}.js", 80))
        project.write(f"{static}/js/{area}.min.js", prose(f"{area}.min.js", 80).replace("\n", ";"))
        for number in range(5):
            name = f"{static}/img/{area}/photo-{number}.png"
            project.write(name, binary(name, 700 + 300 * number))
    project.write(f"{static}/fonts/body.woff2", binary("woff2", 60_000))
    project.write(f"{static}/favicon.ico", binary("ico", 1_200))
    project.write("data/fixtures.json", "[\n" + ",\n".join(f'{{"id": {n}}}' for n in range(9_000)) + "\n]\n")
    project.write("data/mixed-endings.txt", b"one\r\ntwo\nthree\r\n")


def _documents(project: GitRepo) -> None:
    for number in range(40):
        project.write(f"docs/guide/chapter-{number:02d}.md", prose(f"chapter {number}", 50))
    for name in (
        "docs/über-uns.md",
        "docs/日本語/はじめに.md",
        "docs/русский/введение.md",
        "docs/cafe\u0301 au lait.md",
        "docs/two  blanks and a 'quote\".md",
        "docs/-starts-with-a-dash.md",
        "docs/a\nnewline.md",
        "docs/🦊.md",
    ):
        project.write(name, prose(name, 20))
    project.write(b"docs/latin-\xe9t\xe9.txt", "a name in Latin-1\n")
    project.write("docs/.gitignore", "_build/\n*.pdf\n!manual.pdf\n")
    project.write("docs/manual.pdf", binary("manual", 5_000))


def _vendored(project: GitRepo) -> None:
    for part in range(9):
        for number in range(55):
            name = f"vendor/toolkit/part{part}/unit_{number:02d}.js"
            project.write(name, prose(name, 15))
        project.write(f"vendor/toolkit/part{part}/LICENSE", "MIT\n")
    project.write("vendor/toolkit/bin/tool", "#!/bin/sh\necho tool\n", mode=0o755)
    project.link("vendor/toolkit/latest", "part8")


def _ignored(project: GitRepo) -> None:
    project.write(".env", "SECRET=1\n")
    project.write("build/app.tar", binary("build", 3_000))
    project.write("node_modules/left-pad/index.js", "module.exports = 1\n")
    project.write("src/app/generated/client.py", "GENERATED = True\n")
    project.write("src/app/__pycache__/app.pyc", binary("pyc", 200))
    project.write("docs/_build/index.html", "<html>\n")
    project.write("debug.log", "ignored\n")
