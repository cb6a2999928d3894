# SPDX-License-Identifier: Apache-2.0
"""What a script may not do over Spark Connect, and what to do about it: told from its text before it runs, where that
shows it, and from the error that ended it."""

from __future__ import annotations

import ast
import re
import warnings

AGAIN = (
    "Nothing is lost: the task is tried again in a session of its own, with the same batch. If that goes on, see that "
    "the server runs, and that this worker reaches it."
)
#: Attributes that lead to the JVM or to RDDs.
_CLASSIC = frozenset({"_jsc", "_jsparkSession", "_jvm", "rdd", "sparkContext"})
#: What a server says of a setting that it does not take: Spark 4.2, then earlier versions.
CONF_REFUSED = re.compile(r"\[(?:CANNOT_MODIFY|INVALID_CONF)|should be .*, but was ")
#: An error as pyspark names it, and the way back.
_WAYS_BACK = (
    (
        re.compile(
            r"\[(?:JVM_ATTRIBUTE_NOT_SUPPORTED|ATTRIBUTE_NOT_SUPPORTED|CONTEXT_UNAVAILABLE_FOR_REMOTE_CLIENT"
            r"|NOT_IMPLEMENTED|SESSION_OR_CONTEXT_NOT_EXISTS)\]"
        ),
        "Nothing is lost: over Spark Connect a script has no SparkContext, no RDDs and no JVM. Use DataFrames instead, "
        "or run it with SparkSubmitBatchOperator; then clear this task. The same batch runs again.",
    ),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH|Python in worker has different version"),
        "Nothing is lost: Python functions need one minor version of Python on both sides. Give python= the version "
        "of the server's PYSPARK_PYTHON, or change that; then clear this task. The same batch runs again.",
    ),
    (
        re.compile(r"SESSION_CLOSED|SESSION_CHANGED|SESSION_NOT_FOUND|RETRIES_EXCEEDED|StatusCode\.UNAVAILABLE"),
        "Nothing is lost: the server was lost or was started anew, another try ended this session, or the script went "
        f"on after spark.stop(). {AGAIN.partition(': ')[2].capitalize()}",
    ),
)


def way_back(told: str) -> str | None:
    """What to do about the error that ended a script; ``None`` if Connect has nothing to do with it."""
    return next((way for pattern, way in _WAYS_BACK if pattern.search(told)), None)


def seen_in(source: bytes) -> list[str]:
    """What the text of a script shows that it will not find over Spark Connect, each with its line; none of a text
    that Python cannot read, which it says itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python repeats them when it runs the script
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _CLASSIC:
            found[node.lineno, node.attr] = f"line {node.lineno} uses .{node.attr}"
        elif isinstance(node, ast.ImportFrom) and any(name.name == "SparkContext" for name in node.names):
            found[node.lineno, ""] = f"line {node.lineno} imports SparkContext"
    return [found[at] for at in sorted(found)]
