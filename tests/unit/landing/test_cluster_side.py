# SPDX-License-Identifier: Apache-2.0
"""What runs on a cluster is Python 3.9, and imports nothing that a cluster does not have."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import shardbatch

ROOT = Path(shardbatch.__file__).parent
SIDE = sorted(
    [
        ROOT / "__init__.py",
        ROOT / "errors.py",
        *(f for d in ("core", "landing", "spark") for f in (ROOT / d).glob("*.py")),
    ]
)


@pytest.mark.parametrize("file", SIDE, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_cluster_side_is_python_3_9(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    imports = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    annotated = any(isinstance(n, (ast.AnnAssign, ast.arg, ast.FunctionDef)) for n in ast.walk(tree))
    assert imports or not annotated, "annotations are not evaluated only with the future import"
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    newer = {k.arg for c in calls for k in c.keywords if getattr(c.func, "id", "") == "dataclass"} & {
        "slots",
        "kw_only",
    }
    strict = [c for c in calls if getattr(c.func, "id", "") == "zip" and any(k.arg == "strict" for k in c.keywords)]
    assert not newer
    assert not strict


def test_the_pure_parts_of_landing_load_without_pyarrow_and_core_without_anything() -> None:
    program = (
        "import sys\n"
        "import shardbatch.core.manifest, shardbatch.landing.layout, shardbatch.landing.location\n"
        "import shardbatch.core.ports, shardbatch.spark.arguments, shardbatch.spark.files\n"
        "import shardbatch.spark.batch\n"
        "foreign = {'pyarrow', 'airflow', 'msgspec', 'boto3', 'botocore', 'sqlalchemy', 'fsspec', 'pyspark'}\n"
        "print(sorted(foreign & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
