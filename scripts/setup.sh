#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Finds a Python 3.11 to 3.13 and lets it make or mend the virtual environment. PYTHON=... chooses one by name or path.
set -eu
cd "$(dirname "$0")/.."

# Exit 0: fits. A shim that cannot run, another version, or a Python without venv (Debian's, bare) does not.
fits() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    if fits "$PYTHON"; then exec "$PYTHON" scripts/install.py; fi
    echo "setup: PYTHON=$PYTHON is not a Python 3.11, 3.12 or 3.13 with the venv module." >&2
    echo "       Name another one, or unset PYTHON to let the set-up look for one." >&2
    exit 1
fi

for candidate in python3 python3.13 python3.12 python3.11 python \
    "${PYENV_ROOT:-${HOME:-/nonexistent}/.pyenv}"/versions/3.1[123].*/bin/python3 \
    /opt/homebrew/bin/python3.1[123] /usr/local/bin/python3.1[123]; do
    if fits "$candidate"; then exec "$candidate" scripts/install.py; fi
done

echo "setup: no Python 3.11, 3.12 or 3.13 with the venv module was found (python3 here: $(python3 -V 2>&1 | head -n 1))." >&2
echo "       Install one (Debian and Ubuntu: python3 and python3-venv; macOS: brew install python@3.13)," >&2
echo "       or give the path of one: make setup PYTHON=/path/to/python3.12" >&2
exit 1
