"""Builds the C core; all other metadata is in pyproject.toml."""

import os
import sysconfig

from setuptools import setup

# A changed compiler flag alone does not make setuptools compile again, so each variant has a build folder of its own.
variant = "asan" if os.environ.get("TURNBACK_SANITIZE") else "release"
options: dict[str, dict[str, str]] = {"build": {"build_base": f"build/{variant}"}}
if not sysconfig.get_config_var("Py_GIL_DISABLED"):
    options["bdist_wheel"] = {"py_limited_api": "cp311"}

setup(cffi_modules=["csrc/build_ffi.py:ffibuilder"], options=options)
