"""The cffi build script: compiles csrc/*.c and the declarations of tb.cdef.h into turnback._core."""

import os
from pathlib import Path

from cffi import FFI

# Paths relative to the project root, as setuptools wants them (and records them in the sdist).
ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(f"csrc/{path.name}" for path in (ROOT / "csrc").glob("*.c"))
HEADERS = sorted(f"csrc/{path.name}" for path in (ROOT / "csrc").glob("*.h"))

SANITIZE = (
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
    if os.environ.get("TURNBACK_SANITIZE")
    else []
)

ffibuilder = FFI()
ffibuilder.cdef((ROOT / "csrc" / "tb.cdef.h").read_text(encoding="utf-8"))
ffibuilder.set_source(
    "turnback._core",
    '#include "tb.h"',
    sources=SOURCES,
    depends=HEADERS,
    include_dirs=["csrc"],
    extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra", *SANITIZE],
    extra_link_args=SANITIZE,
    libraries=["pthread"] if os.name == "posix" else [],
)
