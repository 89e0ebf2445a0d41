"""The ignore rules of the C core against git's own answers.

Each world is a real repository with rules from all four places (core.excludesFile, info/exclude, the root's and nested
`.gitignore`) and real files. `git check-ignore -v` names the deciding source, line and pattern of every path, `git ls-files -o
--exclude-standard` lists what is left; the core (through csrc/tests/ignore_tool.c) must name the same and leave the same.
"""

import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CSRC = Path(__file__).resolve().parents[2] / "csrc"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wstrict-prototypes", "-Werror"]
CASEFOLD, OLD_STARSTAR = 1, 2  # flags of a stack
PATHNAME, WM_CASEFOLD = 1, 2  # flags of tb_wildmatch

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("git") is None, reason="needs git, and file names of any bytes"
)


@dataclass(frozen=True)
class Answer:
    """Who decided about a path: source, line and rule are empty when nobody did."""

    path: bytes
    source: bytes
    line: bytes
    rule: bytes

    @property
    def ignored(self) -> bool:
        return bool(self.rule) and not self.rule.startswith(b"!")


@dataclass
class World:
    """Rules and paths, as data. `ignores` maps a folder ("" is the root) to the text of its .gitignore."""

    ignores: dict[bytes, bytes] = field(default_factory=dict)
    info: bytes = b""
    excludes: bytes = b""
    files: list[bytes] = field(default_factory=list)
    absent: list[bytes] = field(default_factory=list)  # asked about, never made: git takes them for files
    ignore_case: bool = False

    def folders(self) -> set[bytes]:
        return (set(self.ignores) - {b""}).union(*map(parents, [*self.files, *self.ignores]))

    def all_files(self) -> list[bytes]:
        return sorted({*self.files, *(join(folder, b".gitignore") for folder in self.ignores)})


def join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def parents(path: bytes) -> list[bytes]:
    """The folders above a path, from the top; the root is not among them."""
    return [path[:i] for i in range(len(path)) if path[i : i + 1] == b"/"]


class Repository:
    """A repository on disk that can be filled with one world after another."""

    def __init__(self, place: Path) -> None:
        self.root = place / "repo"
        self.excludes = place / "excludes"
        self.config = place / "config"
        self.config.mkdir(parents=True)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(place), "XDG_CONFIG_HOME": str(self.config)}
        self.env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
        self.made: set[bytes] | None = None
        subprocess.run(["git", "init", "-q", str(self.root)], check=True, env=self.env)
        (self.root / ".git" / "info").mkdir(exist_ok=True)

    def git(self, *args: str, data: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        done = subprocess.run(["git", *args], cwd=self.root, env=self.env, input=data, capture_output=True)
        assert done.returncode in ok, f"git {args} failed: {done.stderr!r}"
        return done.stdout

    def fill(self, world: World) -> None:
        """Makes the world's files (all empty) unless they are there from the one before, then writes its rules."""
        root = os.fsencode(self.root)
        made = {*world.all_files(), *world.folders()}
        if made != self.made:
            self.made = None
            for name in set(os.listdir(root)) - {b".git"}:
                entry = os.path.join(root, name)
                is_folder = os.path.isdir(entry) and not os.path.islink(entry)
                shutil.rmtree(entry) if is_folder else os.unlink(entry)
            for folder in world.folders():
                os.makedirs(os.path.join(root, folder), exist_ok=True)
            for path in world.files:
                os.close(os.open(os.path.join(root, path), os.O_CREAT | os.O_WRONLY))
            self.made = made
        for folder, text in world.ignores.items():
            Path(os.fsdecode(os.path.join(root, join(folder, b".gitignore")))).write_bytes(text)
        (self.root / ".git" / "info" / "exclude").write_bytes(world.info)
        self.excludes.write_bytes(world.excludes)

    def options(self, world: World) -> list[str]:
        ignore_case = f"core.ignoreCase={str(world.ignore_case).lower()}"
        return ["-c", f"core.excludesFile={self.excludes}", "-c", ignore_case]

    def check_ignore(self, options: list[str], paths: list[bytes]) -> list[Answer]:
        flags = ["check-ignore", "-v", "-n", "-z", "--no-index", "--stdin"]
        out = self.git(*options, *flags, data=b"".join(path + b"\0" for path in paths), ok=(0, 1))
        fields = out.split(b"\0")[:-1]
        return [Answer(fields[i + 3], *fields[i : i + 3]) for i in range(0, len(fields), 4)]

    def untracked(self, world: World) -> list[bytes]:
        out = self.git(*self.options(world), "ls-files", "-o", "--exclude-standard", "-z")
        return sorted(out.split(b"\0")[:-1])


@dataclass
class Core:
    """The compiled ignore_tool, and the flags that make it agree with the git of this machine."""

    program: Path
    flags: int

    def run(self, requests: list[bytes]) -> list[bytes]:
        done = subprocess.run([self.program], input=b"".join(requests), capture_output=True)
        assert done.returncode == 0, f"ignore_tool: {done.stderr.decode(errors='replace')}"
        return done.stdout.split(b"\0")[:-1]

    def answers(self, world: World, paths: list[bytes], excludes_name: bytes) -> list[Answer]:
        folders = world.folders()
        flags = self.flags | (CASEFOLD if world.ignore_case else 0)
        requests = [b"F\0%d\0" % flags]
        pushed: list[tuple[bytes, bytes]] = []  # base, name of the source
        sources: list[list[bytes]] = []  # for each path, the names of what was on the stack
        for path in paths:
            wanted = [(b"", excludes_name), (b"", b".git/info/exclude")]
            above = [b"", *parents(path)]
            wanted += [(folder, join(folder, b".gitignore")) for folder in above if folder in world.ignores]
            same = 0
            while same < min(len(pushed), len(wanted)) and pushed[same] == wanted[same]:
                same += 1
            requests.append(b"D\0%d\0" % same)
            for base, name in wanted[same:]:
                text = {excludes_name: world.excludes, b".git/info/exclude": world.info}.get(name)
                text = world.ignores[base] if text is None else text
                requests.append(b"L\0%s\0%d\0%s" % (base, len(text), text))
            pushed = wanted
            requests.append(b"P\0%s\0%s\0" % (b"d" if path in folders else b"f", path))
            sources.append([name for _, name in wanted])
        fields = self.run(requests)
        found = []
        for i, names in enumerate(sources):
            verdict, source, line, rule, path = fields[i * 5 : i * 5 + 5]
            answer = Answer(path, names[int(source)] if source else b"", line, rule)
            assert (verdict == b"i") == answer.ignored, f"the verdict about {path!r} is not that of {rule!r}"
            found.append(answer)
        return found

    def wildmatch(self, flags: int, questions: list[tuple[bytes, bytes]]) -> list[bool]:
        requests = [b"W\0%d\0%s\0%s\0" % (flags, pattern, text) for pattern, text in questions]
        return [answer == b"1" for answer in self.run(requests)]


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    place = tmp_path_factory.mktemp("ignore-core")
    sources = [CSRC / name for name in ("tests/ignore_tool.c", "ignore.c", "wildmatch.c")]
    program = place / "ignore_tool"
    compiler = [*os.environ.get("CC", "cc").split(), "-std=c11", "-O2", *WARNINGS, f"-I{CSRC}"]
    subprocess.run([*compiler, *sources, "-o", program], check=True)
    probe = Repository(place / "probe")
    probe.fill(World({b"": b"x**/y\n"}))
    is_old = probe.check_ignore([], [b"xa/b/y"])[0].ignored
    return Core(program, OLD_STARSTAR if is_old else 0)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("ignore-repo"))


def compare(core: Core, repository: Repository, world: World) -> int:
    """Puts every path of the world to both; the number of paths compared."""
    repository.fill(world)
    paths = sorted({*world.all_files(), *world.folders(), *world.absent})
    ours = core.answers(world, paths, os.fsencode(repository.excludes))
    theirs = repository.check_ignore(repository.options(world), paths)
    for mine, git in zip(ours, theirs, strict=True):
        assert mine == git, f"git and the core differ about {mine.path!r}\n{story(world, mine.path)}"
    ignored = {answer.path for answer in ours if answer.ignored}
    left = [path for path in world.all_files() if path not in ignored]
    assert left == repository.untracked(world), story(world, b"")
    return len(paths)


def story(world: World, path: bytes) -> str:
    """The rules that have a say about a path, for a failure's message."""
    near = {folder: world.ignores[folder] for folder in [b"", *parents(path)] if folder in world.ignores}
    return f"ignore_case={world.ignore_case} info={world.info!r} excludes={world.excludes!r} ignores={near!r}"


# --- random worlds -------------------------------------------------------------------------------------------------

NAMES = (
    b"a|b|c|ab|abc|aab|A|aB|a.c|b.o|.a|a b| a|a |#a|!a|a\t|a\\|\\a|a*|*|**|?|[a]|[|]|a]|a-b|-|^|"
    b"!|a\rb|a\r|\xc3\xa9|\xff|\x80a|\x01|\x7f|a\nb|a:b|0|9z|\xef\xbb\xbf"
).split(b"|")
MEMBERS = (
    b"a|b|c|A|B|-|a-c|A-C|a-a|c-a|!|^|]|\\]|\\a|\\A|[:alpha:]|[:upper:]|[:lower:]|[:digit:]|[:space:]|"
    b"[:punct:]|[:bogus:]|[:alpha|[:]|[::]|[|:|/|.|\\\\|\x80-\xff|\xff|\\a-c|a-\\c| |\\|[:xdigit:]-z|"
    b"*"
).split(b"|")
WILD = b"*|**\\/|**|?|/|**/|/**|/*|*/|\\|***".split(b"|")
ESCAPED = b"a|A|*|?|[|]|\\|/| |#|!".split(b"|")
ODD_STARTS = b"#|\\#|\\!| |!!|!#|//|!/|\xef\xbb\xbf".split(b"|")
ODD_ENDS = b" |  |\\ |\\  |\t| \t|\\|\\\\ | \\".split(b"|")
LINE_ENDS = b"\n|\n|\n|\n|\r\n|\n\n|\r\r\n| \n".split(b"|")


def a_set(rng: random.Random) -> bytes:
    inner = b"".join(rng.choice(MEMBERS) for _ in range(rng.randint(0, 4)))
    return b"[" + rng.choice([b"", b"", b"!", b"^"]) + inner + rng.choice([b"]", b"]", b"]", b"]", b""])


def a_path(rng: random.Random) -> bytes:
    names = NAMES[:8] if rng.random() < 0.6 else NAMES
    return b"/".join(rng.choice(names) for _ in range(rng.choice([1, 1, 2, 2, 3, 4])))


def bent(rng: random.Random, path: bytes) -> bytes:
    """A pattern made of a path, so that it matches that path or just fails to."""
    if rng.random() < 0.3:
        path = path.rpartition(b"/")[2]
    parts = [bytes([c]) for c in path]
    for _ in range(rng.randint(0, 3)):
        i = rng.randrange(len(parts))
        if rng.random() < 0.4 and len(parts) - i > 1:
            parts[i : i + rng.randint(1, 3)] = [rng.choice([b"*", b"**", b"?", b"**/", b"/**/"])]
        else:
            parts[i] = rng.choice([b"?", b"*", a_set(rng), b"\\" + parts[i], parts[i].swapcase()])
    return b"".join(parts)


def a_piece(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(NAMES[:12] if rng.random() < 0.7 else NAMES)
    if kind < 0.85:
        return rng.choice(WILD)
    return a_set(rng) if kind < 0.95 else b"\\" + rng.choice(ESCAPED)


def a_pattern(rng: random.Random, paths: list[bytes]) -> bytes:
    if paths and rng.random() < 0.7:
        pattern = bent(rng, rng.choice(paths))
    else:
        pattern = b"".join(a_piece(rng) for _ in range(rng.randint(1, 5)))
    if pattern.count(b"*") > 8:  # git 2.39 takes exponential time for many stars
        pattern = pattern.replace(b"*", b"", pattern.count(b"*") - 8)
    first, last = rng.random(), rng.random()
    pattern = (b"/" if first < 0.2 else b"") + pattern + (b"/" if last < 0.2 else b"")
    return b"!" + pattern if rng.random() < 0.3 else pattern


def a_text(rng: random.Random, paths: list[bytes]) -> bytes:
    text = b"\xef\xbb\xbf" if rng.random() < 0.05 else b""
    for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 6])):
        line = a_pattern(rng, paths)
        odd = rng.random()
        if odd < 0.06:
            line += rng.choice(ODD_ENDS)
        elif odd < 0.09:
            line = rng.choice(ODD_STARTS) + line
        elif odd < 0.11:
            line += b"\0" + rng.choice(NAMES)
        text += line + rng.choice(LINE_ENDS)
    return text[:-1] if rng.random() < 0.2 else text


def a_neighbour(rng: random.Random, path: bytes) -> bytes:
    """A path that differs from another in one place: what a rule bent from that one may or may not reach."""
    parts = path.split(b"/")
    i = rng.randrange(len(parts))
    part, name = parts[i], rng.choice(NAMES[:12])
    fewer = [] if len(parts) > 1 else [part]
    parts[i : i + 1] = rng.choice([fewer, [name, part], [part + name], [part[1:] or part], [part.swapcase()]])
    return b"/".join(parts)


def without_clashes(paths: list[bytes]) -> list[bytes]:
    """A file can't be a folder too: of such a pair the file goes."""
    return sorted(set(paths).difference(*map(parents, paths)))


def a_world(rng: random.Random, cells: int) -> World:
    """Many folders, each with rules and paths of its own: one git process then answers for all of them."""
    world = World(ignore_case=rng.random() < 0.3)
    for number in range(cells):
        cell = b"c%d" % number
        inner = without_clashes([a_path(rng) for _ in range(rng.randint(3, 8))])
        world.ignores[cell] = a_text(rng, inner)
        world.files += [join(cell, path) for path in inner]
        for path in inner:
            folder = path.rpartition(b"/")[0]
            if folder and rng.random() < 0.25:
                below = [p[len(folder) + 1 :] for p in inner if p.startswith(folder + b"/")]
                world.ignores[join(cell, folder)] = a_text(rng, below)
        for path in {a_neighbour(rng, rng.choice(inner)) for _ in range(12)}:
            is_made = path in inner or any(other.startswith(path + b"/") for other in inner)
            if not is_made and not set(inner).intersection(parents(path)):
                world.absent.append(join(cell, path))
    some = rng.sample(world.files, min(8, len(world.files)))
    texts = [a_text(rng, some) if rng.random() < 0.7 else b"" for _ in range(3)]
    # A world whose every cell is ignored as a whole compares nothing.
    world.ignores[b""], world.info, world.excludes = (text + b"\n!/c[0-9]*/\n" for text in texts)
    return world


DEEP_WORLDS = [pytest.param(seed, 400, marks=pytest.mark.explore) for seed in range(100, 160)]


@pytest.mark.contract("V-108", "V-109", "V-110")
@pytest.mark.parametrize(("seed", "cells"), [*((seed, 80) for seed in range(6)), *DEEP_WORLDS])
def test_random_rules_from_all_four_places(core: Core, repository: Repository, seed: int, cells: int) -> None:
    """Thousands of paths a world: the same source, line and rule decide as in git, and the same files are left."""
    assert compare(core, repository, a_world(random.Random(seed), cells)) > 1000


TOKENS = (
    b"a|b|A|ab|/|*|**|?|[ab]|[!a]|[^a]|[]a]|[a-c]|[[:upper:]]|[|\\|!|#| |\t|\r|\n|\n|\n!|\x00|\xff|"
    b"**/|/**|.|]|-|x"
).split(b"|")
TEXTS = st.lists(st.sampled_from(TOKENS), max_size=14).map(b"".join) | st.binary(max_size=24)
FIXED = (
    b"a|A|b|ab|x|x.a| a|#a|!a|a\\b|a*|[|\xff|a\t|a |d/a|d/b|d/A|d/x/a|d/x/b/a|d/x/b/ab|e/a/b/c|e/ab/a|"
    b"e/x/\xff/a"
).split(b"|")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS), ignore_case=st.booleans())
def test_any_text_means_what_it_means_to_git(
    core: Core, repository: Repository, texts: tuple[bytes, ...], ignore_case: bool
) -> None:
    """Texts put together from the bytes that mean something, and of any bytes at all: shrinks to the rule that differs."""
    root, nested, deep, info, excludes = texts
    ignores = {b"": root, b"d": nested, b"d/x": deep}
    compare(core, repository, World(ignores, info, excludes, FIXED, ignore_case=ignore_case))


# --- the classes that libgit2 gets wrong, and the ones that git's manual names ---------------------------------------

CLASSES: list[tuple[str, World, dict[bytes, bool]]] = []


def row(name: str, ignored: str, kept: str, root: bytes = b"", **more: bytes) -> None:
    """Adds one row: paths that must be ignored, paths that must be left; a '/' at the end makes a folder with a file in it."""
    expected = dict.fromkeys(map(os.fsencode, ignored.split()), True)
    expected |= dict.fromkeys(map(os.fsencode, kept.split()), False)
    excludes, info = more.pop("excludes", b""), more.pop("info", b"")
    ignores = {b"": root} | {os.fsencode(folder): text for folder, text in more.items()}
    files = [path + b"inside" if path.endswith(b"/") else path for path in expected]
    CLASSES.append((name, World(ignores, info, excludes, files), expected))


row("1-slash-wildcard-then-negated-name", "build/x", "build/.gitkeep", b"build/*\n!.gitkeep")
row("1-anchored", "build/x", "build/.gitkeep", b"/build/*\n!.gitkeep")
row("1-two-stars", "build/x", "build/.gitkeep", b"build/**\n!.gitkeep")
row("1-any-depth", "a/logs/x logs/x", "a/logs/.gitkeep", b"**/logs/*\n!.gitkeep")
row("1-extension", "config/a.json", "config/default.json", b"config/*.json\n!default.json")
row("1-folder", "a/c", "a/b/ a/b/inside", b"a/*\n!b")
row("2-negates-info-exclude", "a.log", "keep.log", b"!keep.log", info=b"*.log")
row("2-negates-excludes-file", "a.log", "keep.log", b"!keep.log", excludes=b"*.log")
row("2-info-negates-excludes-file", "a.log", "keep.log", info=b"!keep.log", excludes=b"*.log")
row("2-excludes-file-is-lowest", "keep.log", "", b"*.log", excludes=b"!keep.log")
row("2-nested-negates-root", "build/x", "build/keep", b"build/*", build=b"!keep")
row("3-negation-with-escape", "foox", "foo?", b"foo?\n!foo\\?")
row("3-escaped-letter", "", "d/foo", b"[d]/foo\n!f\\oo")
row("4-below-an-ignored-folder", "d/ d/a.txt d/e/a.txt", "a.txt", b"d/\n!*.txt", d=b"!*")
row("5-stars-slash-alone", "d/ d/e/f", "top", b"**/")
row("5-star-slash-alone", "d/ d/e/f", "top", b"*/")
row("6-slashes-alone", "", "a b/c", b"//\n/\n!/\n!\n!//")
row("6-negated-slashes-after-a-wildcard", "foo1", "a", b"foo*\n!//")
row("7-trailing-tab", "", "a.log", b"*.log\t")
row("8-trailing-backslash", "b", "x foo", b"x\\\nb\nfoo\\")
row("10-nul", "foo foo2", "foo\x01bar", b"foo\0bar\nfoo2")
row("13-not-utf8", "\udcff.o \udce9x", "\udcfe", b"\xff*\n[\xe8-\xea]x")
row("bom-and-crlf", "a b", "c", b"\xef\xbb\xbfa\r\nb\r")
row("escaped-first-byte", "#a !b", "a b", b"\\#a\n\\!b\n#b")
row("whitelist", "a.c d/b.c", "d/ d/a.py x.py", b"*\n!*/\n!*.py")
row("only-one-folder", "x", "src/ src/a", b"/*\n!/src")
row("name-at-any-depth-path-anchored", "o d/o d/p p/q", "e/p/q", b"o\n/d/p\np/q")


@pytest.mark.contract("V-108", "V-109", "V-110")
@pytest.mark.parametrize(
    ("world", "expected"), [each[1:] for each in CLASSES], ids=[each[0] for each in CLASSES]
)
def test_classes_where_matchers_go_wrong(
    core: Core, repository: Repository, world: World, expected: dict[bytes, bool]
) -> None:
    """Git gives the expected answer, and so does the core."""
    compare(core, repository, world)
    paths = [path.removesuffix(b"/") for path in expected]
    theirs = repository.check_ignore(repository.options(world), paths)
    assert [answer.ignored for answer in theirs] == list(expected.values())
    assert core.answers(world, paths, os.fsencode(repository.excludes)) == theirs


def test_class_9_a_symlinked_gitignore_is_not_followed(core: Core, repository: Repository) -> None:
    """Who reads the files must leave such a one out: without it the core leaves what git leaves."""
    world = World({}, files=[b"real", b"a.log"])
    repository.fill(world)
    repository.made = None  # the next world starts afresh
    (repository.root / "real").write_bytes(b"*.log\n")
    (repository.root / ".gitignore").symlink_to("real")
    assert repository.untracked(world) == [b".gitignore", b"a.log", b"real"]
    assert not any(answer.ignored for answer in core.answers(world, world.files, b""))


def test_class_11_stars_right_behind_a_name(core: Core, repository: Repository) -> None:
    """Old git lets "x**/y" cross folders and the manual doesn't: one flag, set by asking the git that is there."""
    files = [b"xa/b/y", b"xa/y", b"xy", b"p/qa/b", b"p/qa/c/keep"]
    world = World({b"": b"x**/y\np/q**\n!p/q**/keep"}, files=files)
    compare(core, repository, world)
    for flags, ignored in ((OLD_STARSTAR, [True, True, True]), (0, [False, True, False])):
        answers = Core(core.program, flags).answers(world, files[:3], b"")
        assert [answer.ignored for answer in answers] == ignored


@pytest.mark.contract("V-110")
def test_class_12_the_default_place_of_the_excludes_file(core: Core, repository: Repository) -> None:
    """Without core.excludesFile git reads $XDG_CONFIG_HOME/git/ignore, and its text has the lowest precedence too."""
    world = World({b"": b"!keep.log"}, excludes=b"*.log", files=[b"a.log", b"keep.log"])
    repository.fill(world)
    place = repository.config / "git" / "ignore"
    place.parent.mkdir()
    place.write_bytes(world.excludes)
    theirs = repository.check_ignore([], world.files)
    shutil.rmtree(place.parent)
    assert core.answers(world, world.files, os.fsencode(place)) == theirs
    assert [answer.ignored for answer in theirs] == [True, False]


# --- the pure matcher, asked through pathspecs ---------------------------------------------------------------------

MAGIC = ((b"", 0), (b":(icase)", WM_CASEFOLD), (b":(glob)", PATHNAME), (b":(glob,icase)", 3))


def is_plain_question(pattern: bytes, text: bytes, flags: int) -> bool:
    """False where a pathspec is more than its wildmatch: literal folders, normalised slashes, magic, stars behind a name."""
    literal = next((i for i, c in enumerate(pattern) if c in b"*?[\\"), len(pattern))
    is_more = literal == len(pattern) or pattern.startswith((b":", b"/"))
    is_behind = flags & PATHNAME and literal > 0 and pattern[literal - 1] != ord("/")
    stars_behind = is_behind and pattern.startswith(b"**", literal)
    if is_more or stars_behind or text.lower().startswith(pattern.lower()):
        return False
    return not {b"", b".", b".."} & set(pattern.split(b"/")[:-1]) and not pattern.endswith((b"/.", b"/.."))


def check_wildmatch(core: Core, repository: Repository, rng: random.Random, patterns: int) -> int:
    texts = without_clashes([a_path(rng) for _ in range(150)])
    entries = b"".join(b"100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\t%s\0" % text for text in texts)
    repository.git("read-tree", "--empty")
    repository.git("update-index", "-z", "--index-info", data=entries)
    checks = 0
    for pattern in [a_pattern(rng, texts) for _ in range(patterns)]:
        for magic, flags in MAGIC:
            asked = [text for text in texts if is_plain_question(pattern, text, flags)]
            if asked:
                out = repository.git("ls-files", "-z", "--", os.fsdecode(magic + pattern))
                theirs = [text in out.split(b"\0") for text in asked]
                ours = core.wildmatch(flags, [(pattern, text) for text in asked])
                wrong = [text for text, mine, git in zip(asked, ours, theirs, strict=True) if mine != git]
                assert not wrong, f"{pattern!r} with flags {flags}"
            checks += len(asked)
    repository.git("read-tree", "--empty")
    return checks


DEEP_PATTERNS = [pytest.param(seed, 600, marks=pytest.mark.explore) for seed in range(1000, 1010)]


@pytest.mark.parametrize(("seed", "patterns"), [(11, 60), *DEEP_PATTERNS])
def test_wildmatch_alone(core: Core, repository: Repository, seed: int, patterns: int) -> None:
    """With and without pathname and case folding, also where ignore rules never ask: '*' across slashes."""
    assert check_wildmatch(core, repository, random.Random(seed), patterns) > 10_000
