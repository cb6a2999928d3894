# SPDX-License-Identifier: Apache-2.0
"""Makes, updates or mends the checkout's virtual environment; standard library only.

Run through ``scripts/setup.sh``, which picks the Python. A second run with nothing changed ends at once: a stamp in
the environment tells what it was made from. A run that was interrupted leaves a marker, and the next one starts anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CACHE = ROOT / ".cache"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".shardbatch-made-from"
UNFINISHED = VENV / ".shardbatch-unfinished"
CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = "aws,spark,local,dev"


def main() -> int:
    """Brings the environment up to date; returns the exit code."""
    try:
        with one_at_a_time():
            if read_stamp() != (wanted := stamp()):
                start_anew_if_broken()
                make()
                install()
                write_stamp(wanted)
    except subprocess.CalledProcessError as error:
        say(f"this step failed with exit code {error.returncode}: {' '.join(map(str, error.cmd))}")
        say("see its message above; once mended, run the same make target again: what was downloaded is kept")
        return 1
    except OSError as error:
        say(f"{error}. Is the checkout on a disk that is writable for you and has 2.5 GB free?")
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next run goes on from here")
        return 130
    return 0


def say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Holds off a second set-up of the same checkout; the system drops the lock when the process ends."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "setup.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of this checkout")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def stamp() -> dict[str, str]:
    """What the environment has to be made from: requirements, pins, this program, and the folder it stands in."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    digest = hashlib.sha256(json.dumps([project["build-system"], project["project"]], sort_keys=True).encode())
    digest.update(CONSTRAINTS.read_bytes() + EXTRAS.encode())
    return {"inputs": digest.hexdigest(), "folder": str(ROOT), "python": wanted_python()}


def wanted_python() -> str:
    """The Python version to use: the one asked for by PYTHON, else that of an environment that is already there."""
    found = python_of_venv()
    ours = "{}.{}".format(*sys.version_info[:2])
    return found if found and not os.environ.get("PYTHON") else ours


def python_of_venv() -> str:
    """The version of the environment's Python if it runs and is one of ours, else an empty string."""
    program = "import sys, pip; print('{}.{}'.format(*sys.version_info[:2]))"
    try:
        done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=False, env=environ())
    except OSError:
        return ""
    version = done.stdout.strip()
    return version if version in {"3.11", "3.12", "3.13"} else ""


def read_stamp() -> dict[str, str]:
    try:
        found = json.loads(STAMP.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and not UNFINISHED.exists() else {}


def write_stamp(wanted: dict[str, str]) -> None:
    temporary = STAMP.with_suffix(".tmp")
    temporary.write_text(json.dumps(wanted), "utf-8")
    temporary.replace(STAMP)
    UNFINISHED.unlink()
    say("done")


def start_anew_if_broken() -> None:
    """Removes an environment that is half made, was moved, does not run, or is of another Python than wanted."""
    if not VENV.exists():
        return
    version = python_of_venv()
    moved = STAMP.exists() and read_stamp().get("folder", str(ROOT)) != str(ROOT)
    if UNFINISHED.exists() or moved or version != wanted_python():
        say("the virtual environment is unfinished, moved, or of another Python: starting anew")
        shutil.rmtree(VENV)


def make() -> None:
    VENV.mkdir(exist_ok=True)
    UNFINISHED.touch()
    if not python_of_venv():
        say(f"making .venv with Python {'{}.{}.{}'.format(*sys.version_info[:3])} ({sys.executable})")
        run(sys.executable, "-m", "venv", VENV)


def install() -> None:
    """Installs what constraints.txt pins. The first time downloads about 700 MB, of which Spark is most."""
    say("installing the pinned packages (the first time this downloads about 700 MB)")
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", CONSTRAINTS, "uv")
    uv: list[str | Path] = [VENV / "bin" / "uv", "pip", "install", "--python", PYTHON, "--compile-bytecode"]
    run(*uv, "-c", CONSTRAINTS, "-b", CONSTRAINTS, "-e", f".[{EXTRAS}]", env=uv_environ())


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    subprocess.run(command, check=True, cwd=ROOT, env=env or environ(), stdin=subprocess.DEVNULL)


def environ() -> dict[str, str]:
    """The caller's environment without what would send a Python, or pip, to other folders than ours."""
    foreign = {
        "PYTHONHOME",
        "PYTHONPATH",
        "VIRTUAL_ENV",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_USER",
        "PIP_REQUIRE_VIRTUALENV",
    }
    return {name: value for name, value in os.environ.items() if name not in foreign}


def uv_environ() -> dict[str, str]:
    """pip's own settings (index, certificate) as uv understands them, and a cache for it where home is not writable."""
    env = environ()
    env.setdefault("UV_HTTP_TIMEOUT", "300")
    settings = pip_settings()
    for pip_name, uv_name in (("index-url", "UV_DEFAULT_INDEX"), ("cert", "SSL_CERT_FILE")):
        if value := settings.get(pip_name):
            env.setdefault(uv_name, value)
    if "UV_CACHE_DIR" not in env and not home_is_writable():
        env["UV_CACHE_DIR"] = str(CACHE / "uv")
    return env


def pip_settings() -> dict[str, str]:
    """pip's settings from its files and variables, by their last name; the environment wins, as with pip."""
    command: list[str | Path] = [PYTHON, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False, env=environ()).stdout
    settings: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        settings[name.rpartition(".")[2]] = value.strip("'\"")
    return settings


def home_is_writable() -> bool:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/nonexistent")) / ".cache")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
