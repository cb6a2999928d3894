# SPDX-License-Identifier: Apache-2.0
"""Every Airflow process imports the plugin, the workers too: that loads nothing but the plugin itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import json, sys
import airflow.plugins_manager
before = set(sys.modules)
import shardbatch_plugin
assert shardbatch_plugin.ShardbatchPlugin.react_apps
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_the_plugin_loads_itself_only(tmp_path: Path) -> None:
    path = os.pathsep.join(str(ROOT / name) for name in ("plugins", "provider"))
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == ["shardbatch_plugin"]
