# SPDX-License-Identifier: Apache-2.0
"""Spark applications as the batch sees them: what one is told, what it is called at its cluster, how one is ended.

Everything goes through the Spark provider's own hook, so connections, deploy modes and masking stay as users know them.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardbatch.core import handover
from shardbatch.core.handover import WorkOrder
from shardbatch.errors import ConfigurationError, ConnectionUnknown
from shardbatch.hooks.connections import connection, refuse_generic
from shardbatch.submit import processes

if TYPE_CHECKING:
    import psutil
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Connection

log = logging.getLogger("shardbatch")

#: States of a standalone driver that it does not leave.
DRIVER_OVER = frozenset({"FINISHED", "KILLED", "FAILED", "ERROR"})
#: Seconds that a standalone driver is given to end after its master was asked to end it.
DRIVER_PATIENCE_S = 30.0


def equip(hook: SparkSubmitHook, order: WorkOrder) -> None:
    """Give a hook the batch: configuration, environment where the mode has one, name and tags.

    Tags are those that can be set before an application starts: YARN's, and labels of Kubernetes' driver and executors.
    Spark's own job tags (``spark.job.tags``) belong to threads of a running session. The name carries the batch
    everywhere.
    """
    conf = {**hook._conf, **handover.to_configuration(order)}
    if hook._is_yarn:
        conf["spark.yarn.tags"] = ",".join(filter(None, (conf.get("spark.yarn.tags"), order.tag)))
    if hook._is_kubernetes:
        for role in ("driver", "executor"):
            conf[f"spark.kubernetes.{role}.label.{handover.LABEL}"] = order.batch_id
    hook._conf = conf
    if not hook._should_track_driver_status:  # standalone cluster mode has no environment to pass on
        variables = handover.to_environment(handover.encode(order))
        hook._env_vars = {**_same_python(hook), **(hook._env_vars or {}), **variables}
    hook._name = f"{hook._name or 'shardbatch'} {order.tag}"


def _same_python(hook: SparkSubmitHook) -> dict[str, str]:
    """In local mode, with the spark-submit of this very environment, the application runs on its Python."""
    master, binary = hook._connection["master"], shutil.which(hook._connection["spark_binary"])
    given = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"} & {*os.environ, *(hook._env_vars or {})}
    given |= {"spark.pyspark.python", "spark.pyspark.driver.python"} & set(hook._conf)
    if given or not master.startswith("local") or not binary or Path(binary).parent != Path(sys.executable).parent:
        return {}
    return {"PYSPARK_PYTHON": sys.executable}


def require_connection(conn_id: str) -> Connection:
    """The Spark connection; the stock hook would go on with ``--master yarn`` without one.

    :raises ConnectionUnknown: if there is none, or what keeps connections does not answer.
    :raises ConfigurationError: for a generic one, of whose host the stock hook makes ``--master generic://…``.
    """
    try:
        found = connection(conn_id)
    except ConnectionUnknown as error:
        raise ConnectionUnknown(
            f"There is no Spark connection {conn_id!r}, or what keeps connections did not answer.",
            remedy=(
                "Create it (type Spark, host for example local[2], yarn, spark://HOST:7077 or k8s://https://HOST) "
                f"or give conn_id= the one to use. {ConnectionUnknown.remedy}"
            ),
        ) from error.__cause__
    refuse_generic(found, "[spark]")
    return found


def require_master(hook: SparkSubmitHook, found: Connection) -> None:
    """See that a hook works with a connection: it looks it up again, and goes on with ``--master yarn`` if it is not
    found just then.

    :raises ConnectionUnknown: if it does not.
    """
    if hook._connection["master"] == "yarn" and (found.conn_type, found.host) != ("spark", "yarn"):
        raise ConnectionUnknown(f"The Spark connection {found.conn_id!r} was there and is not found any more.")


def require_programs(hook: SparkSubmitHook) -> None:
    """See that spark-submit and a Java can be found, as the process that runs them would look for them.

    :raises ConfigurationError: naming what is missing.
    """
    env = {**os.environ, **{name: str(value) for name, value in (hook._env_vars or {}).items()}}
    binary = hook._connection["spark_binary"]
    found = shutil.which(binary, path=env.get("PATH"))
    if not found:
        raise ConfigurationError(
            f"{binary} was not found on the PATH of this worker.",
            remedy=(
                "Install Spark on the workers (pip install 'airflow-provider-shardbatch[spark]' brings it) "
                "and put the folder of spark-submit on the worker's PATH."
            ),
        )
    if not _java_found(env, Path(found)):
        raise ConfigurationError(
            f"{binary} needs Java, and there is no JAVA_HOME with bin/java and no java on the PATH of this worker.",
            remedy="Install Java 17 or 21 on the workers, or set JAVA_HOME in their environment or in env_vars=.",
        )


def _java_found(env: Mapping[str, str], submit: Path) -> bool:
    homes = [env.get("SPARK_CONF_DIR"), str(Path(env.get("SPARK_HOME") or submit.resolve().parent.parent) / "conf")]
    if any(home and (Path(home) / "spark-env.sh").is_file() for home in homes):
        return True  # the script may set JAVA_HOME
    if env.get("JAVA_HOME"):
        return shutil.which(str(Path(env["JAVA_HOME"]) / "bin" / "java")) is not None
    return shutil.which("java", path=env.get("PATH")) is not None


def application_reference(hook: SparkSubmitHook) -> str | None:
    """What the application is called where it runs, as soon as the hook knows.

    ``yarn:APPLICATION``, ``standalone:DRIVER``, ``k8s:NAMESPACE:POD``; in client and local mode the application is the
    spark-submit process: ``client:HOST:PID``.
    """
    if hook._yarn_application_id:
        return f"yarn:{hook._yarn_application_id}"
    if hook._driver_id:
        return f"standalone:{hook._driver_id}"
    if hook._kubernetes_driver_pod:
        return f"k8s:{hook._connection['namespace'] or 'default'}:{hook._kubernetes_driver_pod}"
    submit: subprocess.Popen[Any] | None = hook._submit_sp
    return processes.reference(submit.pid) if submit is not None else None


def cluster_mode(hook: SparkSubmitHook) -> bool:
    """Whether the application can outlive its spark-submit."""
    return bool(hook._connection["deploy_mode"] == "cluster")


def resumed_as(hook: SparkSubmitHook, reference: str) -> str | None:
    """The id by which the stock operator goes on with a recorded application; ``None`` where it cannot."""
    kind, _, name = reference.partition(":")
    tracked = {
        "standalone": hook._should_track_driver_status,
        "yarn": hook._is_yarn_cluster_mode and hook._yarn_track_via_rm_api,
        "k8s": hook._should_track_driver_via_k8s_api(),
    }
    return name if tracked.get(kind) else None


def process_over(hook: SparkSubmitHook) -> bool:
    """Whether the hook's spark-submit has ended, or was never started."""
    return hook._submit_sp is None or hook._submit_sp.poll() is not None


def processes_below(hook: SparkSubmitHook) -> list[psutil.Process]:
    """The processes that the hook's spark-submit started; not itself, whose exit code only the hook may collect."""
    started = hook._submit_sp
    return [] if started is None or process_over(hook) else processes.family(started.pid)[1:]


def await_process(hook: SparkSubmitHook) -> None:
    """Wait a moment for a spark-submit that was killed."""
    if hook._submit_sp is not None:
        with suppress(subprocess.TimeoutExpired):
            hook._submit_sp.wait(timeout=processes.PATIENCE_S)


@dataclass(frozen=True)
class Ending:
    """What became of an older application: whether it is known to have ended, and a line for the log. ``silent``: who
    could have ended it did not answer, so it is of no use to ask there for another one now."""

    over: bool
    said: str
    silent: bool = False


def end_application(text: str, batch_id: str, hook: SparkSubmitHook | None) -> Ending:
    """End an older application of a batch, as far as it can be reached from here.

    ``hook`` is one that has submitted nothing; without one only this host's processes can be reached. What cannot be
    reached is left alone: its output stands in a start folder of its own and is never read.
    """
    kind, _, name = text.partition(":")
    try:
        if kind in ("client", "task") and hook is not None and cluster_mode(hook):
            return _end_submission(text, batch_id)
        if kind == "client":
            return {
                "ended": Ending(True, f"Ended the older application {text}."),
                "over": Ending(True, f"The older application {text} has ended."),
                "alive": Ending(False, f"The older application {text} could not be ended; {FENCED}"),
            }.get(
                processes.end(text, batch_id),
                Ending(False, f"The older application {text} runs on another host; {FENCED}"),
            )
        if kind == "task" and processes.task_gone(text):
            return Ending(True, f"The older {text} is gone, and it has not submitted anything that is known.")
        if hook is None:
            return Ending(False, f"The older application {text} cannot be ended from here; {FENCED}")
        if kind == "standalone" and hook._should_track_driver_status:
            return _end_driver(hook, name)
        if kind == "yarn" and hook._is_yarn and (hook._yarn_track_via_rm_api or shutil.which("yarn")):
            _end_yarn(hook, name)
        elif kind == "k8s" and hook._is_kubernetes:
            hook._connection["namespace"], _, hook._kubernetes_driver_pod = name.partition(":")
            hook._delete_driver_pod()
        else:
            return Ending(False, f"The older application {text} cannot be ended from here; {FENCED}")
    except Exception as error:  # noqa: BLE001 - whatever a cluster answers, fencing is enough and is said
        return Ending(False, f"The older application {text} could not be ended ({type(error).__name__}); {FENCED}")
    return Ending(False, f"Asked the cluster to end the older application {text}.")


FENCED = "it is fenced: what it still writes is never read."


def _end_submission(text: str, batch_id: str) -> Ending:
    """End what was submitting to a cluster. Its end is not the application's, whose id was not written down in time."""
    if text.startswith("client:"):
        processes.end(text, batch_id)
    return Ending(False, f"It is unknown whether the older {text} submitted an application; {FENCED}")


def _end_driver(hook: SparkSubmitHook, driver: str) -> Ending:
    """End a driver of a standalone cluster, and see it end."""
    hook._driver_id = driver
    state = driver_state(hook)
    if state in DRIVER_OVER:
        return Ending(True, f"The older application {driver} has ended ({state}).")
    subprocess.run(hook._build_spark_driver_kill_command(), check=True, capture_output=True, timeout=60)
    deadline = time.monotonic() + DRIVER_PATIENCE_S
    while (state := driver_state(hook)) not in DRIVER_OVER:
        if time.monotonic() > deadline:
            return Ending(False, f"Asked the cluster to end the older application {driver}, which is {state}; {FENCED}")
        time.sleep(0.5)
    return Ending(True, f"Ended the older application {driver} ({state}).")


def driver_state(hook: SparkSubmitHook) -> str | None:
    """What the master says of the hook's driver; ``None`` if its answer does not tell."""
    hook._driver_status = None
    asked = subprocess.run(
        hook._build_track_driver_status_command(), capture_output=True, text=True, timeout=60, check=True
    )
    hook._process_spark_status_log(iter((asked.stdout + asked.stderr).splitlines()))
    state, hook._driver_status = hook._driver_status, None
    return state


def _end_yarn(hook: SparkSubmitHook, application: str) -> None:
    if hook._yarn_track_via_rm_api:
        hook._kill_yarn_application(application)
    else:
        subprocess.run(["yarn", "application", "-kill", application], check=True, capture_output=True, timeout=60)
