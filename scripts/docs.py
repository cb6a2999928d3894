# SPDX-License-Identifier: Apache-2.0
"""Builds the pages as a site; anything that a page names and that is not there ends it.

The generator has an environment of its own below ``.cache/docs``: the extra ``docs`` with the pins of
``constraints.txt``. It takes the docstrings from the sources and imports nothing of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib

from scripts.install import CACHE, CONSTRAINTS, PYTHON, ROOT, VENV, environ, uv_environ

FOLDER = CACHE / "docs"
ENVIRONMENT = FOLDER / "venv"


def main(arguments: list[str]) -> int:
    """Install what is missing, then build; further arguments are those of ``mkdocs build``."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["docs"]
    python = ENVIRONMENT / "bin" / "python"
    uv = VENV / "bin" / "uv"
    try:
        if not python.exists():
            subprocess.run([uv, "venv", "--quiet", "--python", PYTHON, ENVIRONMENT], check=True, env=uv_environ())
        install = [uv, "pip", "install", "--quiet", "--python", python, "-c", CONSTRAINTS, *wanted]
        subprocess.run(install, cwd=ROOT, check=True, env=uv_environ())
        path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
        env = {**environ(), "PATH": path, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
        subprocess.run([python, "-m", "mkdocs", "build", "--strict", *arguments], cwd=ROOT, check=True, env=env)
    except subprocess.CalledProcessError as error:
        return error.returncode
    print(f"docs: {FOLDER / 'site' / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
