"""The ignore rules of the C core against git's own answers.

Each world is a real repository with rules from all four places (core.excludesFile, info/exclude, the root's and nested
`.gitignore`) and real files. `git check-ignore -v` names the deciding source, line and pattern of every path, `git ls-files -o
--exclude-standard` lists what is left; the core (through csrc/tests/ignore_tool.c) must name the same and leave the same.
"""

import os
import random
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CSRC = Path(__file__).resolve().parents[2] / "csrc"
WARNINGS = "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Werror".split()
CASEFOLD, OLD_STARSTAR = 1, 2  # flags of a stack
PATHNAME, WM_CASEFOLD = 1, 2  # flags of tb_wildmatch

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is the oracle")


# --- the two that answer -------------------------------------------------------------------------------------------


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
        found = set(self.ignores) - {b""}
        for path in self.files + list(found):
            while b"/" in path:
                path = path.rpartition(b"/")[0]
                found.add(path)
        return found

    def all_files(self) -> list[bytes]:
        return sorted({*self.files, *(join(folder, b".gitignore") for folder in self.ignores)})


def join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


class Repository:
    """A repository on disk that can be filled with one world after another."""

    def __init__(self, place: Path) -> None:
        self.root = place / "repo"
        self.excludes = place / "excludes"
        home = place / "home"
        home.mkdir(parents=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "LC_ALL": "C",
        }
        subprocess.run(["git", "init", "-q", str(self.root)], check=True, env=self.env)

    def git(self, *args: str, data: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        done = subprocess.run(["git", *args], cwd=self.root, env=self.env, input=data, capture_output=True)
        assert done.returncode in ok, f"git {args} failed: {done.stderr!r}"
        return done.stdout

    def fill(self, world: World) -> None:
        root = os.fsencode(self.root)
        for name in os.listdir(root):
            if name != b".git":
                entry = os.path.join(root, name)
                shutil.rmtree(entry) if os.path.isdir(entry) and not os.path.islink(entry) else os.unlink(entry)
        for folder in world.folders():
            os.makedirs(os.path.join(root, folder), exist_ok=True)
        for path in world.files:
            os.close(os.open(os.path.join(root, path), os.O_CREAT | os.O_WRONLY))
        for folder, text in world.ignores.items():
            Path(os.fsdecode(os.path.join(root, join(folder, b".gitignore")))).write_bytes(text)
        (self.root / ".git" / "info").mkdir(exist_ok=True)
        (self.root / ".git" / "info" / "exclude").write_bytes(world.info)
        self.excludes.write_bytes(world.excludes)

    def options(self, world: World) -> list[str]:
        return ["-c", f"core.excludesFile={self.excludes}", "-c", f"core.ignoreCase={str(world.ignore_case).lower()}"]

    def check_ignore(self, world: World, paths: list[bytes]) -> list[Answer]:
        flags = ["check-ignore", "-v", "-n", "-z", "--no-index", "--stdin"]
        out = self.git(*self.options(world), *flags, data=b"".join(path + b"\0" for path in paths), ok=(0, 1))
        fields = out.split(b"\0")[:-1]
        return [Answer(fields[i + 3], *fields[i : i + 3]) for i in range(0, len(fields), 4)]

    def untracked(self, world: World) -> list[bytes]:
        out = self.git(*self.options(world), "ls-files", "-o", "--exclude-standard", "-z")
        return sorted(out.split(b"\0")[:-1])


class Core:
    """The compiled ignore_tool, and the flags that make it agree with the git of this machine."""

    def __init__(self, program: Path, flags: int) -> None:
        self.program = program
        self.flags = flags

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
            parents = [b"", *(path[:i] for i in range(len(path)) if path[i : i + 1] == b"/")]
            wanted += [(folder, join(folder, b".gitignore")) for folder in parents if folder in world.ignores]
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
            assert (verdict == b"i") == answer.ignored, f"the verdict is not that of the rule: {fields[i * 5 : i * 5 + 5]}"
            found.append(answer)
        return found

    def wildmatch(self, flags: int, questions: list[tuple[bytes, bytes]]) -> list[bool]:
        return [answer == b"1" for answer in self.run([b"W\0%d\0%s\0%s\0" % (flags, p, t) for p, t in questions])]


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    place = tmp_path_factory.mktemp("ignore-core")
    sources = [str(CSRC / name) for name in ("tests/ignore_tool.c", "ignore.c", "wildmatch.c")]
    compiler = os.environ.get("CC", "cc").split()
    program = place / "ignore_tool"
    subprocess.run(
        [*compiler, "-std=c11", "-O2", *WARNINGS, f"-I{CSRC}", *sources, "-o", str(program)], check=True
    )
    probe = Repository(place / "probe")
    world = World({b"": b"x**/y\n"})
    probe.fill(world)
    is_old = probe.check_ignore(world, [b"xa/b/y"])[0].ignored
    return Core(program, OLD_STARSTAR if is_old else 0)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("ignore-repo"))


def compare(core: Core, repository: Repository, world: World) -> int:
    """Puts every path of the world to both; the number of paths compared."""
    repository.fill(world)
    paths = sorted({*world.all_files(), *world.folders(), *world.absent})
    ours = core.answers(world, paths, os.fsencode(repository.excludes))
    theirs = repository.check_ignore(world, paths)
    for mine, git in zip(ours, theirs, strict=True):
        assert mine == git, f"git and the core differ about {mine.path!r}\n{story(world, mine.path)}"
    left = {answer.path for answer in ours if not answer.ignored}
    assert [path for path in world.all_files() if path in left] == repository.untracked(world), story(world, b"")
    return len(paths)


def story(world: World, path: bytes) -> str:
    """The rules that have a say about a path, for a failure's message."""
    near = {folder: text for folder, text in world.ignores.items() if not folder or path.startswith(folder + b"/")}
    return f"ignore_case={world.ignore_case} info={world.info!r} excludes={world.excludes!r} ignores={near!r}"


# --- random worlds -------------------------------------------------------------------------------------------------

NAMES = [
    *(b"a", b"b", b"c", b"ab", b"abc", b"aab", b"A", b"aB", b"a.c", b"b.o", b".a", b"a b", b" a", b"a ", b"#a", b"!a"),
    *(b"a\t", b"a\\", b"\\a", b"a*", b"*", b"**", b"?", b"[a]", b"[", b"]", b"a]", b"a-b", b"-", b"^", b"!", b"a\rb"),
    *(b"a\r", b"\xc3\xa9", b"\xff", b"\x80a", b"\x01", b"\x7f", b"a\nb", b"a:b", b"0", b"9z", b"\xef\xbb\xbf"),
]
MEMBERS = [
    *(b"a", b"b", b"c", b"A", b"B", b"-", b"a-c", b"A-C", b"a-a", b"c-a", b"!", b"^", b"]", b"\\]", b"\\a", b"\\A"),
    *(b"[:alpha:]", b"[:upper:]", b"[:lower:]", b"[:digit:]", b"[:space:]", b"[:punct:]", b"[:bogus:]", b"[:alpha", b"[:]"),
    *(b"[::]", b"[", b":", b"/", b".", b"\\\\", b"\x80-\xff", b"\xff", b"\\a-c", b"a-\\c", b" ", b"\\", b"[:xdigit:]-z", b"*"),
]
WILD = [b"*", b"**", b"?", b"/", b"**/", b"/**", b"/*", b"*/", b"\\", b"***"]


def a_set(rng: random.Random) -> bytes:
    inner = b"".join(rng.choice(MEMBERS) for _ in range(rng.randint(0, 4)))
    return b"[" + rng.choice([b"", b"", b"!", b"^"]) + inner + rng.choice([b"]", b"]", b"]", b"]", b""])


def a_path(rng: random.Random) -> bytes:
    names = NAMES[:8] if rng.random() < 0.6 else NAMES
    return b"/".join(rng.choice(names) for _ in range(rng.choice([1, 1, 2, 2, 3, 4])))


def a_pattern(rng: random.Random, paths: list[bytes]) -> bytes:
    """Most patterns are bent from a path of the world, so that many of them match something."""
    if paths and rng.random() < 0.7:
        path = rng.choice(paths)
        if rng.random() < 0.3:
            path = path.rpartition(b"/")[2]
        parts = [bytes([c]) for c in path]
        for _ in range(rng.randint(0, 3)):
            i = rng.randrange(len(parts))
            if rng.random() < 0.4 and len(parts) - i > 1:
                del parts[i : i + rng.randint(1, 3)]
                parts.insert(i, rng.choice([b"*", b"**", b"?", b"**/", b"/**/"]))
            else:
                parts[i] = rng.choice([b"?", b"*", a_set(rng), b"\\" + parts[i], parts[i].swapcase()])
            if not parts:
                parts = [b"*"]
        pattern = b"".join(parts)
    else:
        pattern = b""
        for _ in range(rng.randint(1, 5)):
            kind = rng.random()
            if kind < 0.45:
                pattern += rng.choice(NAMES[:12] if rng.random() < 0.7 else NAMES)
            elif kind < 0.85:
                pattern += rng.choice(WILD)
            elif kind < 0.95:
                pattern += a_set(rng)
            else:
                pattern += b"\\" + rng.choice([b"a", b"A", b"*", b"?", b"[", b"]", b"\\", b"/", b" ", b"#", b"!"])
    if pattern.count(b"*") > 8:  # git 2.39 takes exponential time for many stars
        pattern = pattern.replace(b"*", b"", pattern.count(b"*") - 8)
    if rng.random() < 0.2:
        pattern = b"/" + pattern
    if rng.random() < 0.2:
        pattern += b"/"
    if rng.random() < 0.3:
        pattern = b"!" + pattern
    return pattern


def a_text(rng: random.Random, paths: list[bytes]) -> bytes:
    lines = []
    for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 6])):
        line = a_pattern(rng, paths)
        odd = rng.random()
        if odd < 0.06:
            line += rng.choice([b" ", b"  ", b"\\ ", b"\\  ", b"\t", b" \t", b"\\", b"\\\\ ", b" \\"])
        elif odd < 0.09:
            line = rng.choice([b"#", b"\\#", b"\\!", b" ", b"!!", b"!#", b"//", b"!/", b"\xef\xbb\xbf"]) + line
        elif odd < 0.11:
            line += b"\0" + rng.choice(NAMES)
        lines.append(line + rng.choice([b"\n", b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\r\r\n", b" \n"]))
    text = b"".join(lines)
    if rng.random() < 0.05:
        text = b"\xef\xbb\xbf" + text
    return text[:-1] if rng.random() < 0.2 else text


def a_neighbour(rng: random.Random, path: bytes) -> bytes:
    """A path that differs from another in one place: what a rule bent from that one may or may not reach."""
    parts = path.split(b"/")
    i = rng.randrange(len(parts))
    match rng.randrange(5):
        case 0:
            parts.insert(i, rng.choice(NAMES[:12]))
        case 1 if len(parts) > 1:
            del parts[i]
        case 2:
            parts[i] += rng.choice(NAMES[:8])
        case 3:
            parts[i] = parts[i][1:] or parts[i]
        case _:
            parts[i] = parts[i].swapcase()
    return b"/".join(parts)


def without_clashes(paths: list[bytes]) -> list[bytes]:
    """A file can't be a folder too: of such a pair the file goes."""
    folders = {path[:i] for path in paths for i in range(len(path)) if path[i : i + 1] == b"/"}
    return sorted({path for path in paths if path not in folders})


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
        used = {join(cell, path) for path in inner}
        asked = [a_neighbour(rng, rng.choice(inner)) for _ in range(12)]
        world.absent += [join(cell, path) for path in without_clashes(inner + asked) if join(cell, path) not in used]
    files = set(world.files)
    folders = world.folders()
    world.absent = [
        path
        for path in world.absent
        if path not in folders and not any(path.startswith(f + b"/") for f in files if path[:3] == f[:3])
    ]
    some = rng.sample(world.files, min(8, len(world.files)))
    for name in ("root", "info", "excludes"):
        text = a_text(rng, some) if rng.random() < 0.7 else b""
        text += b"\n!/c[0-9]*/\n"  # a world whose every cell is ignored as a whole compares nothing
        if name == "root":
            world.ignores[b""] = text
        else:
            setattr(world, name, text)
    return world


@pytest.mark.contract("V-108", "V-109", "V-110")
@pytest.mark.parametrize("seed", range(8))
def test_random_rules_from_all_four_places(core: Core, repository: Repository, seed: int) -> None:
    """Thousands of paths a world: the same source, line and rule decide as in git, and the same files are left."""
    assert compare(core, repository, a_world(random.Random(seed), 150)) > 2000


@pytest.mark.explore
@pytest.mark.parametrize("seed", range(100, 160))
def test_random_rules_deep(core: Core, repository: Repository, seed: int) -> None:
    compare(core, repository, a_world(random.Random(seed), 400))


TOKENS = [
    *(b"a", b"b", b"A", b"ab", b"/", b"*", b"**", b"?", b"[ab]", b"[!a]", b"[^a]", b"[]a]", b"[a-c]", b"[[:upper:]]", b"["),
    *(b"\\", b"!", b"#", b" ", b"\t", b"\r", b"\n", b"\n", b"\n!", b"\0", b"\xff", b"**/", b"/**", b".", b"]", b"-", b"x"),
]
TEXTS = st.lists(st.sampled_from(TOKENS), max_size=14).map(b"".join) | st.binary(max_size=24)
FIXED = [
    *(b"a", b"A", b"b", b"ab", b"x", b"x.a", b" a", b"#a", b"!a", b"a\\b", b"a*", b"[", b"\xff", b"a\t", b"a "),
    *(b"d/a", b"d/b", b"d/A", b"d/x/a", b"d/x/b/a", b"d/x/b/ab", b"e/a/b/c", b"e/ab/a", b"e/x/\xff/a"),
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(root=TEXTS, nested=TEXTS, deep=TEXTS, info=TEXTS, excludes=TEXTS, ignore_case=st.booleans())
def test_any_text_means_what_it_means_to_git(
    core: Core,
    repository: Repository,
    root: bytes,
    nested: bytes,
    deep: bytes,
    info: bytes,
    excludes: bytes,
    ignore_case: bool,
) -> None:
    """Texts put together from the bytes that mean something, and of any bytes at all: shrinks to the rule that differs."""
    texts = {b"": root, b"d": nested, b"d/x": deep}
    compare(core, repository, World(texts, info, excludes, FIXED, ignore_case=ignore_case))


# --- the classes that libgit2 gets wrong, and the ones that git's manual names ---------------------------------------


def lines(*rules: bytes) -> bytes:
    return b"".join(rule + b"\n" for rule in rules)


CLASSES: list[tuple[str, World, dict[bytes, bool]]] = []


def case(name: str, ignored: str, kept: str, root: bytes = b"", **more: bytes) -> None:
    """Adds one row: paths that must be ignored, paths that must be left; a '/' at the end makes a folder with a file in it."""
    expected = {os.fsencode(path): True for path in ignored.split()} | {os.fsencode(path): False for path in kept.split()}
    excludes, info = more.pop("excludes", b""), more.pop("info", b"")
    ignores = {b"": root} | {os.fsencode(folder): text for folder, text in more.items()}
    files = [path + b"inside" if path.endswith(b"/") else path for path in expected]
    CLASSES.append((name, World(ignores, info, excludes, files), expected))


case("1-slash-wildcard-then-negated-name", "build/x", "build/.gitkeep", lines(b"build/*", b"!.gitkeep"))
case("1-anchored", "build/x", "build/.gitkeep", lines(b"/build/*", b"!.gitkeep"))
case("1-two-stars", "build/x", "build/.gitkeep", lines(b"build/**", b"!.gitkeep"))
case("1-any-depth", "a/logs/x logs/x", "a/logs/.gitkeep", lines(b"**/logs/*", b"!.gitkeep"))
case("1-extension", "config/a.json", "config/default.json", lines(b"config/*.json", b"!default.json"))
case("1-folder", "a/c", "a/b/ a/b/inside", lines(b"a/*", b"!b"))
case("2-negates-info-exclude", "a.log", "keep.log", lines(b"!keep.log"), info=lines(b"*.log"))
case("2-negates-excludes-file", "a.log", "keep.log", lines(b"!keep.log"), excludes=lines(b"*.log"))
case("2-info-negates-excludes-file", "a.log", "keep.log", info=lines(b"!keep.log"), excludes=lines(b"*.log"))
case("2-excludes-file-is-lowest", "keep.log", "", lines(b"*.log"), excludes=lines(b"!keep.log"))
case("2-nested-negates-root", "build/x", "build/keep", lines(b"build/*"), build=lines(b"!keep"))
case("3-negation-with-escape", "foox", "foo?", lines(b"foo?", b"!foo\\?"))
case("3-escaped-letter", "", "d/foo", lines(b"[d]/foo", b"!f\\oo"))
case("4-below-an-ignored-folder", "d/ d/a.txt d/e/a.txt", "a.txt", lines(b"d/", b"!*.txt"), d=lines(b"!*"))
case("5-stars-slash-alone", "d/ d/e/f", "top", lines(b"**/"))
case("5-star-slash-alone", "d/ d/e/f", "top", lines(b"*/"))
case("6-slashes-alone", "", "a b/c", lines(b"//", b"/", b"!/", b"!", b"!//"))
case("6-negated-slashes-after-a-wildcard", "foo1", "a", lines(b"foo*", b"!//"))
case("7-trailing-tab", "", "a.log", lines(b"*.log\t"))
case("8-trailing-backslash", "b", "x foo", b"x\\\nb\nfoo\\")
case("10-nul", "foo foo2", "foo\x01bar", b"foo\0bar\nfoo2")
case("13-not-utf8", "\udcff.o \udce9x", "\udcfe", lines(b"\xff*", b"[\xe8-\xea]x"))
case("bom-and-crlf", "a b", "c", b"\xef\xbb\xbfa\r\nb\r")
case("escaped-first-byte", "#a !b", "a b", lines(b"\\#a", b"\\!b", b"#b"))
case("whitelist", "a.c d/b.c", "d/ d/a.py x.py", lines(b"*", b"!*/", b"!*.py"))
case("only-one-folder", "x", "src/ src/a", lines(b"/*", b"!/src"))
case("name-at-any-depth-path-anchored", "o d/o d/p p/q", "e/p/q", lines(b"o", b"/d/p", b"p/q"))


@pytest.mark.contract("V-108", "V-109", "V-110")
@pytest.mark.parametrize(("world", "expected"), [row[1:] for row in CLASSES], ids=[row[0] for row in CLASSES])
def test_classes_where_matchers_go_wrong(
    core: Core, repository: Repository, world: World, expected: dict[bytes, bool]
) -> None:
    """Git gives the expected answer, and so does the core."""
    compare(core, repository, world)
    paths = [path.removesuffix(b"/") for path in expected]
    for who, answers in (
        ("git", repository.check_ignore(world, paths)),
        ("core", core.answers(world, paths, os.fsencode(repository.excludes))),
    ):
        for answer, (path, ignored) in zip(answers, expected.items(), strict=True):
            assert answer.ignored == ignored, f"{who} about {path!r}"


def test_class_9_a_symlinked_gitignore_is_not_followed(core: Core, repository: Repository) -> None:
    """Who reads the files must leave such a one out: without it the core leaves what git leaves."""
    world = World({}, files=[b"real", b"a.log"])
    repository.fill(world)
    (repository.root / "real").write_bytes(b"*.log\n")
    (repository.root / ".gitignore").symlink_to("real")
    assert repository.untracked(world) == [b".gitignore", b"a.log", b"real"]
    assert not any(answer.ignored for answer in core.answers(world, world.files, b""))


def test_class_11_stars_right_behind_a_name(core: Core, repository: Repository) -> None:
    """Old git lets "x**/y" cross folders and the manual doesn't: one flag, set by asking the git that is there."""
    world = World({b"": lines(b"x**/y", b"p/q**", b"!p/q**/keep")}, files=[b"xa/b/y", b"xa/y", b"xy", b"p/qa/b", b"p/qa/c/keep"])
    compare(core, repository, world)
    for flags, crosses in ((OLD_STARSTAR, True), (0, False)):
        other = Core(core.program, flags)
        assert [a.ignored for a in other.answers(world, [b"xa/b/y", b"xy", b"xa/y"], b"")] == [crosses, crosses, True]


@pytest.mark.contract("V-110")
def test_class_12_the_default_place_of_the_excludes_file(core: Core, repository: Repository) -> None:
    """Without core.excludesFile git reads $XDG_CONFIG_HOME/git/ignore, and its text has the lowest precedence too."""
    world = World({b"": lines(b"!keep.log")}, excludes=lines(b"*.log"), files=[b"a.log", b"keep.log"])
    repository.fill(world)
    place = Path(repository.env["XDG_CONFIG_HOME"]) / "git" / "ignore"
    place.parent.mkdir(parents=True)
    place.write_bytes(world.excludes)
    repository.options = lambda _: []  # type: ignore[method-assign]
    try:
        theirs = repository.check_ignore(world, world.files)
    finally:
        del repository.options
        shutil.rmtree(place.parent)
    assert core.answers(world, world.files, os.fsencode(place)) == theirs
    assert [answer.ignored for answer in theirs] == [True, False]


# --- the pure matcher, asked through pathspecs ---------------------------------------------------------------------


def may_differ(pattern: bytes, text: bytes, flags: int) -> bool:
    """Where a pathspec is more than its wildmatch: literal folders, normalised slashes, magic, stars behind a name."""
    literal = next((i for i, c in enumerate(pattern) if c in b"*?[\\"), len(pattern))
    if not pattern or pattern.startswith((b":", b"/")) or b"//" in pattern or literal == len(pattern):
        return True
    if flags & PATHNAME and literal and pattern[literal : literal + 2] == b"**" and pattern[literal - 1 : literal] != b"/":
        return True
    if any(part in (b".", b"..") for part in pattern.split(b"/")):
        return True
    return text.lower().startswith(pattern.lower())


def check_wildmatch(core: Core, repository: Repository, rng: random.Random, patterns: int) -> int:
    texts = without_clashes(sorted({a_path(rng) for _ in range(150)}))
    entry = b"100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\t"
    repository.git("read-tree", "--empty")
    repository.git("update-index", "-z", "--index-info", data=b"".join(entry + text + b"\0" for text in texts))
    checks = 0
    for _ in range(patterns):
        pattern = a_pattern(rng, texts)
        for magic, flags in ((b"", 0), (b":(icase)", WM_CASEFOLD), (b":(glob)", PATHNAME), (b":(glob,icase)", 3)):
            asked = [text for text in texts if not may_differ(pattern, text, flags)]
            if not asked:
                continue
            found = set(repository.git("ls-files", "-z", "--", os.fsdecode(magic + pattern)).split(b"\0"))
            for text, mine in zip(asked, core.wildmatch(flags, [(pattern, text) for text in asked]), strict=True):
                assert mine == (text in found), f"{pattern!r} against {text!r} with {flags}"
            checks += len(asked)
    repository.git("read-tree", "--empty")
    return checks


def test_wildmatch_alone(core: Core, repository: Repository) -> None:
    """With and without pathname and case folding, also where ignore rules never ask: '*' across slashes."""
    assert check_wildmatch(core, repository, random.Random(11), 60) > 10_000


@pytest.mark.explore
@pytest.mark.parametrize("seed", range(10))
def test_wildmatch_deep(core: Core, repository: Repository, seed: int) -> None:
    check_wildmatch(core, repository, random.Random(1000 + seed), 600)
