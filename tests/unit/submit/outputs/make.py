# SPDX-License-Identifier: Apache-2.0
"""Makes the outputs beside this file anew: small jobs that fail, each in a real spark-submit, as Airflow reads it.

``python -m tests.unit.submit.outputs.make [NAME ...]``; the exit code stands in the first line of a file.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from scripts.environment import process_environment

HERE = Path(__file__).parent
BEGIN = "from pyspark.sql import SparkSession\nfrom pyspark.sql import functions as F\n"
BEGIN += "spark = SparkSession.builder.getOrCreate()\n"
FAILING_UDF = "from pyspark.sql.functions import udf\nhalf = udf(lambda number: 1 / (number - 3))\n"
JOBS = {
    "syntax_error": "total = (1 +\n",
    "zero_division_in_the_driver": BEGIN + "print(1 / 0)\n",
    "message_of_several_lines": BEGIN + "raise ValueError('1 row is wrong\\n  delay: not a number\\n  day: missing')\n",
    "error_in_a_python_worker": BEGIN + FAILING_UDF + "spark.range(5).select(half('id')).collect()\n",
    "error_in_a_worker_while_writing": BEGIN + FAILING_UDF + "spark.range(5).select(half('id')).write.parquet('out')\n",
    "missing_table": BEGIN + "spark.table('lake.flights').count()\n",
    "missing_file": BEGIN + "spark.read.parquet('file:///no/such/folder').count()\n",
    "raised_in_an_executor": BEGIN + "spark.range(1).select(F.raise_error(F.lit('no carrier'))).collect()\n",
    "error_of_java": BEGIN + "spark._jvm.java.lang.Integer.parseInt('twelve')\n",
    "while_another_was_handled": BEGIN
    + "try:\n    spark.table('x').count()\nexcept Exception as e:\n    raise RuntimeError('no x today') from e\n",
    "swallowed_at_exit": "import atexit\n"
    + BEGIN
    + "class Closes:\n    def __del__(self):\n        raise OSError('too late')\nkept = [Closes()]\n"
    + "atexit.register(kept.clear)\nraise KeyError('carrier')\n",
    "ends_with_a_message": "import sys\n" + BEGIN + "sys.exit('no flights today')\n",
    "no_memory_in_the_jvm": BEGIN + "spark._jvm.java.util.ArrayList(2_000_000_000)\n",
    "driver_was_killed": "import os, signal\n" + BEGIN + "os.kill(os.getpid(), signal.SIGKILL)\n",
    "jvm_was_killed": "import os, signal\n" + BEGIN + "os.kill(os.getppid(), signal.SIGKILL)\n",
    "says_nothing": "raise SystemExit(3)\n",
}
#: Words for spark-submit in front of the job, and what stands in its place.
MORE = {
    "missing_class": ["--class", "org.example.Missing"],
    "missing_jar": ["--class", "org.example.Missing"],
    "missing_script": [],
    "missing_python": ["--conf", "spark.pyspark.python=/no/python"],
    "master_that_is_none": ["--master", "lokal"],
    "quiet": ["--conf", "spark.log.level=WARN"],
}


def main() -> None:
    for name in sys.argv[1:] or [*JOBS, *MORE]:
        with tempfile.TemporaryDirectory() as folder:
            job = Path(folder) / "job.py"
            job.write_text(JOBS.get(name, BEGIN + "print(spark.range(3).count())\n"))
            target = {
                "missing_class": str(next(Path(sys.prefix).glob("lib/*/site-packages/pyspark/jars/spark-core*.jar"))),
                "missing_jar": f"{folder}/missing.jar",
                "missing_script": f"{folder}/missing.py",
            }.get(name, str(job))
            words = ["spark-submit", "--master", "local[1]", "--conf", "spark.ui.enabled=false", *MORE.get(name, [])]
            environment = {**process_environment(), "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
            done = subprocess.run(
                [*words, target],
                env=environment,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            text = done.stdout.replace(folder, "/jobs").replace(sys.prefix, "/venv")
            (HERE / f"{name}.txt").write_text(f"exit code {done.returncode}\n{shorter(text)}")
            sys.stdout.write(f"{name}: {done.returncode}, {len(text.splitlines())} lines\n")


def shorter(text: str) -> str:
    """Of each run of frames, and of lines that log4j only informs with, the first and last: none tells anything."""
    lines = [line for line in text.splitlines(keepends=True) if not re.search("OS info|Java version", line)]
    kinds = ["at" if re.match(r"\s+at ", line) else "INFO" if " INFO " in line else "" for line in lines]
    kept = []
    for kind, run in groupby(zip(kinds, lines, strict=True), key=itemgetter(0)):
        found = [line for _, line in run]
        kept += [*found[:1], *found[-1:]] if kind and len(found) > 2 else found
    return "".join(kept)


if __name__ == "__main__":
    main()
