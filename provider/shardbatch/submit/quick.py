# SPDX-License-Identifier: Apache-2.0
"""A quick start of the submitting JVM: options and an archive of classes, by ``SPARK_SUBMIT_OPTS``.

What the author and the environment chose stays: options of ``extraJavaOptions`` come behind ours and win.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from shardbatch.core.choices import SparkJvm, chosen
from shardbatch.hooks.settings import setting
from shardbatch.submit import archive
from shardbatch.submit.applications import cluster_mode
from shardbatch.submit.archive import NoArchive
from shardbatch.submit.jvm import JvmUnknown, joined, look

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

log = logging.getLogger("shardbatch")


def wanted(given: SparkJvm) -> bool:
    """Whether the JVM is to start quickly, by what the author says, or else by the setting.

    :raises ConfigurationError: if the setting is another word.
    """
    text = setting("spark_jvm")
    if given is SparkJvm.DEFAULT and text:
        given = chosen(SparkJvm, text, f"Airflow's setting [shardbatch] spark_jvm = {text!r}")
    return given is SparkJvm.QUICK


def archives() -> Path:
    """The folder of the archives on this worker.

    :raises ConfigurationError: if the setting is not an absolute path.
    """
    return archive.folder_of(setting("spark_archives"))


def quicken(hook: SparkSubmitHook, folder: Path) -> None:
    """Let a hook's spark-submit start its JVM quickly, as far as that can be done; what cannot is logged."""
    if cluster_mode(hook) or hook._is_kubernetes:
        log.info("jvm='quick' changes nothing here: the driver runs at the cluster, or its options are Kubernetes'.")
        return
    env = {**os.environ, **{name: str(value) for name, value in (hook._env_vars or {}).items()}}
    try:
        seen = look([*hook._get_spark_binary_path(), *hook._build_spark_common_args()], env)
    except JvmUnknown as error:
        log.warning("Spark's JVM starts as ever, not quickly: %s.", error)
        return
    options, changed = seen.flags(), {}
    try:
        jvm, missed = archive.without_settings(seen, folder)
        options.append(f"-XX:SharedArchiveFile={archive.fitting(jvm, folder)}")
    except (NoArchive, OSError) as error:
        log.info("Spark's JVM starts without an archive of its classes: %s.", error)
    else:
        log.info("Spark's JVM starts with the archive %s.", options[-1].partition("=")[2])
        if missed is not None:
            changed["SPARK_CONF_DIR"] = str(folder / archive.EMPTY)
            hook._properties_file = hook._properties_file or missed or None
    changed["SPARK_SUBMIT_OPTS"] = joined(options, env.get("SPARK_SUBMIT_OPTS", ""))
    hook._env_vars = {**(hook._env_vars or {}), **changed}
