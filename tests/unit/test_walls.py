# SPDX-License-Identifier: Apache-2.0
"""The walls of the house that no linter sees: what really gets imported, and on which Python it could run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "provider" / "shardbatch"
CLUSTER_SIDE = ("masking", "errors", "core", "landing", "spark")

# Runs in a Python of its own: refuses the named packages, imports the named modules and tells what came along.
PROGRAM = """
import importlib, sys

refused, names = sys.argv[1].split(","), sys.argv[2:]

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"refused: {name}", name=name)

before = set(sys.modules)
sys.meta_path.insert(0, Wall())
for name in names:
    importlib.import_module(name)
print("\\n".join(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


def modules_of(part: str) -> list[str]:
    """The dotted names of every module of a part, found as files."""
    files = [PACKAGE / f"{part}.py"] if (PACKAGE / f"{part}.py").exists() else sorted((PACKAGE / part).rglob("*.py"))
    assert files, f"there is no part {part} in {PACKAGE.name}"
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in files]
    return [name.removesuffix(".__init__") for name in names]


def imported_by(names: list[str], refused: str) -> set[str]:
    command = [sys.executable, "-c", PROGRAM, refused, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("part", ["errors", "core", "sources", "landing", "spark"])
def test_a_part_of_the_cluster_imports_without_airflow(part: str) -> None:
    imported_by(modules_of(part), refused="airflow")


def test_the_stores_import_without_airflow() -> None:
    imported_by(modules_of("stores"), refused="airflow")


@pytest.mark.parametrize("part", ["errors", "core", "run", "control"])
def test_the_law_and_the_use_cases_import_the_standard_library_only(part: str) -> None:
    found = imported_by(modules_of(part), refused="airflow,pyarrow,sqlalchemy,boto3,botocore,msgspec,pyspark")
    assert found - set(sys.stdlib_module_names) <= {"shardbatch"}


def test_open_batch_needs_nothing_but_pyspark() -> None:
    names = ["shardbatch.spark", "pyspark.sql"]
    imported_by(names, refused="airflow,sqlalchemy,boto3,botocore,msgspec")
    program = "from shardbatch.spark import open_batch"
    refused = "airflow,sqlalchemy,boto3,botocore,msgspec,pyarrow,pydantic,fsspec"
    code = PROGRAM.replace("for name in names:", f"{program}\nfor name in names[:1]:")
    done = subprocess.run([sys.executable, "-c", code, refused, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_all_but_one_command_works_without_the_wing_for_kcl() -> None:
    program = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("shardbatch.kcl"):
            raise ModuleNotFoundError(f"hidden: {name}", name=name)

sys.meta_path.insert(0, Hidden())
import shardbatch.cli.commands
from shardbatch.cli import get_cli_commands
(group,) = get_cli_commands()
print(" ".join(command.name for command in group.subcommands))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = done.stdout.splitlines()[-1].split()
    assert {"list", "status", "release", "reset", "replay"} <= set(names)
    assert "import-kcl" not in names


def test_the_names_of_a_dag_file_bring_no_vendor_library() -> None:
    # Airflow itself may have loaded some of them before, and the stock operator, which loads Airflow's OpenLineage
    # provider where that is installed; what counts is what our names add.
    program = """
import sys
from airflow.sdk import DAG, BaseOperator, TaskGroup
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
before = set(sys.modules)
import shardbatch
for name in set(shardbatch.__all__) - {"open_batch", "read_committed_files", "CommittedFile"}:
    getattr(shardbatch, name)
print(" ".join(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.splitlines()[-1].split())
    assert found & {"aiobotocore", "boto3", "botocore", "fsspec", "pandas", "pyarrow", "pyspark", "sqlalchemy"} == set()


@pytest.mark.parametrize(
    ("names", "above"),
    [
        (("StreamBatch", "KinesisStream", "SQLLeases", "Staging"), "from airflow.sdk import DAG"),
        (("SparkConnectBatchOperator",), "from airflow.sdk import DAG"),
        (
            ("SparkSubmitBatchOperator",),
            "from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator",
        ),
    ],
)
def test_a_dag_file_loads_little_beside_airflow(names: tuple[str, ...], above: str) -> None:
    """Every task of a run parses the file in a process of its own, so its imports count many times."""
    program = f"""
import sys
from airflow.sdk import DAG
{above}
before = set(sys.modules)
import shardbatch
for name in {names!r}:
    getattr(shardbatch, name)
print(" ".join(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.splitlines()[-1].split())
    heavy = {"airflow.providers.apache.spark.hooks", "airflow.providers.openlineage.plugins", "grpc", "kubernetes"}
    heavy |= {"airflow.providers.amazon.aws.hooks", "openlineage", "pydantic", "requests"}
    heavy |= {"shardbatch.control", "shardbatch.landing", "shardbatch.run", "shardbatch.spark", "shardbatch.stores.sql"}
    assert {name for name in found if name in heavy or any(name.startswith(f"{part}.") for part in heavy)} == set()
    assert len(found) < 150, sorted(found)


@pytest.mark.parametrize("part", CLUSTER_SIDE)
def test_the_cluster_side_is_valid_python_3_9(part: str) -> None:
    single = PACKAGE / f"{part}.py"
    files = [single] if single.exists() else sorted((PACKAGE / part).rglob("*.py"))
    for path in files:
        tree = ast.parse(path.read_text("utf-8"), filename=str(path), feature_version=(3, 9))
        assert postponed(tree), f"{path.name} lacks `from __future__ import annotations`"
        for node in ast.walk(tree):
            assert not new_dataclass_argument(node), (
                f"{path.name}:{getattr(node, 'lineno', 0)}: 3.10's dataclass argument"
            )


def postponed(tree: ast.Module) -> bool:
    """Whether annotations are not evaluated, so that `X | Y` may stand in them; without any, no line is needed."""
    annotated = any(isinstance(node, (ast.FunctionDef, ast.AnnAssign)) for node in ast.walk(tree))
    return not annotated or any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)


def new_dataclass_argument(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    return name == "dataclass" and any(word.arg in {"slots", "kw_only", "match_args"} for word in node.keywords)


#: Each source by its folder. It is named by its own files only, so a new one changes nothing here.
SOURCES = sorted(path.parent.name for path in (PACKAGE / "sources").glob("*/source.py"))
#: Rooms for one service: KCL's leases, Bloop's tokens, the server for tests.
OF_ONE_SERVICE = ("kcl/", "bloop/", "local/")


def names_of(source: str) -> re.Pattern[str]:
    """How a file names a source: its modules, and the classes of the one that reads and the one that authors write."""
    files = (PACKAGE / "sources" / source / "source.py", PACKAGE / "hooks" / f"{source}.py")
    trees = [ast.parse(path.read_text("utf-8")) for path in files]
    classes = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    imported = [rf"shardbatch\.{room}(\.| import (\w+, )*){source}\b" for room in ("sources", "hooks")]
    return re.compile("|".join([*imported, *(rf"\b{name}\b" for name in classes if not name.startswith("_"))]))


@pytest.mark.parametrize("source", SOURCES)
def test_no_other_file_imports_a_source_or_the_class_that_authors_write(source: str) -> None:
    asks = names_of(source)
    found = {
        path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if asks.search(path.read_text("utf-8"))
    }
    found = {name for name in found if not name.startswith((f"sources/{source}/", *OF_ONE_SERVICE))}
    assert found == {f"hooks/{source}.py", "__init__.py"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("from shardbatch.sources.kinesis.options import FanOut", True),
        ("from shardbatch.sources import aws, kinesis", True),
        ("import shardbatch.hooks.kinesis", True),
        ("stream: KinesisStream", True),
        ("from shardbatch.sources.records import batch_of", False),
        ("from shardbatch.sources.aws.pace import Pace", False),
    ],
)
def test_what_every_source_may_import_names_none(line: str, said: bool) -> None:
    assert bool(names_of("kinesis").search(line)) is said


NEUTRAL = (
    "core",
    "run",
    "control",
    "tasks",
    "submit",
    "operators",
    "task_group",
    "params",
    "hooks/streams",
    "sources/aws",
    "sources/records",
    "errors",
    "cli",
    "landing",
    "stores",
    "spark",
)


#: Words of one service in neutral code, and why they may stand there: part of a file's name, of the line, the reason.
EXCEPTIONS = (
    ("", "resubscribed", "the name of a column that is stored, and of a field that users read"),
    ("errors.py", "IteratorExpired", "a public name; each service of AWS that reads streams has iterators"),
    ("errors.py", "import-kcl", "the command that helps"),
    ("errors.py", "KCL workers", "the error is of that command"),
    ("errors.py", "that KCL application", "the error is of that command"),
    ("cli/", "kcl", "the command is made where the wing is there"),
    ("cli/", "KCL", "the command is made where the wing is there"),
    ("landing/s3_files.py", "SSECustomerKeyMD5", "an argument of S3"),
    ("stores/dynamodb_table.py", "Its hash key begins", "the key of an index of DynamoDB"),
    ("sources/aws", "iterator", "each service of AWS that reads streams has iterators"),
    ("sources/aws", "NOT_SUBSCRIBED", "an account subscribes to a service"),
    ("sources/aws", "SubscriptionRequiredException", "an account subscribes to a service"),
    ("sources/aws", "is not subscribed to", "an account subscribes to a service"),
)


def excepted(file: str, line: str) -> bool:
    return any(part in file and words in line for part, words, _ in EXCEPTIONS)


@pytest.mark.parametrize("part", NEUTRAL)
def test_what_is_neutral_of_the_service_does_not_speak_of_kinesis(part: str) -> None:
    of_kinesis = re.compile(
        r"(?i:kinesis|fan.?out|hash key|hash space|2\*\*128|md5|aggregat|subscri|kcl|kpl)"
        r"|\biterators?\b|IteratorExpired"
    )
    files = [PACKAGE / f"{part}.py"] if (PACKAGE / f"{part}.py").exists() else (PACKAGE / part).rglob("*.py")
    said = {
        f"{name}:{number}: {line.strip()}"
        for path in files
        for name in [path.relative_to(PACKAGE).as_posix()]
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if of_kinesis.search(line) and not excepted(name, line)
    }
    assert said == set()


@pytest.mark.parametrize(("part", "words", "why"), EXCEPTIONS)
def test_each_exception_is_needed(part: str, words: str, why: str) -> None:
    assert why
    assert any(
        part in path.relative_to(PACKAGE).as_posix() and words in path.read_text("utf-8")
        for path in PACKAGE.rglob("*.py")
    )


def test_every_source_file_names_its_licence() -> None:
    folders = ("provider", "plugins", "scripts", "tests", "dags", "benchmarks")
    missing = [
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if not path.read_text("utf-8").startswith("# SPDX-License-Identifier: Apache-2.0\n")
    ]
    assert missing == []


def test_no_module_is_longer_than_400_lines() -> None:
    sizes = {path: len(path.read_text("utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {str(path.relative_to(ROOT)): size for path, size in sizes.items() if size > 400} == {}
