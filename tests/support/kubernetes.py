# SPDX-License-Identifier: Apache-2.0
"""A stub of the Kubernetes API server: pods and Spark applications, which a test lets end.

It keeps what it is given and finds pods by their labels. A Spark application gets its driver's pod, as Spark's operator
would make it. What runs in a pod, a test plays.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.stub_api import Request, StubApi, stub_api

Json = dict[str, Any]
APPLICATIONS = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/default/sparkapplications"
PODS = "/api/v1/namespaces/default/pods"
BEGAN = "2026-01-01T00:00:00Z"


@dataclass
class Cluster:
    """Pods and applications by name; ``phase`` is the one of pods that begin from now on."""

    api: StubApi | None = None
    pods: dict[str, Json] = field(default_factory=dict)
    applications: dict[str, Json] = field(default_factory=dict)
    phase: str = "Succeeded"

    def connection(self) -> str:
        """The value for an AIRFLOW_CONN_... variable that leads to this server."""
        assert self.api is not None
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "stub",
            "clusters": [{"name": "stub", "cluster": {"server": self.api.url}}],
            "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub", "namespace": "default"}}],
            "users": [{"name": "stub", "user": {}}],
        }
        return json.dumps({"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(config)}})

    def answer(self, asked: Request) -> tuple[int, Any] | None:
        if asked.path.startswith(APPLICATIONS):
            return self._application(asked, asked.path.removeprefix(APPLICATIONS).strip("/").partition("/")[0])
        if asked.path.startswith(PODS):
            name, _, part = asked.path.removeprefix(PODS).strip("/").partition("/")
            return self._follow(name) if part == "log" else self._pod(asked, name)
        if asked.path.endswith("/events"):
            return 200, {"apiVersion": "v1", "kind": "EventList", "metadata": {}, "items": []}
        return None

    def _application(self, asked: Request, name: str) -> tuple[int, Any] | None:
        if asked.method == "POST":
            name, driver = asked.body["metadata"]["name"], asked.body["spec"].get("driver", {})
            labels = {**driver.get("labels", {}), "spark-role": "driver"}
            container = {"name": "spark-kubernetes-driver", "image": asked.body["spec"].get("image", "")}
            self._add({"metadata": {"name": f"{name}-driver", "labels": labels}, "spec": {"containers": [container]}})
            self.applications[name] = {**asked.body, "status": {"applicationState": {"state": "RUNNING"}}}
        if asked.method == "DELETE":
            self.pods.pop(f"{name}-driver", None)
            self.applications.pop(name, None)
            return 200, {"status": "Success"}
        if name not in self.applications:
            return None
        return 201 if asked.method == "POST" else 200, self.applications[name]

    def _pod(self, asked: Request, name: str) -> tuple[int, Any] | None:
        if asked.method == "GET" and not name:
            found = [pod for pod in self.pods.values() if matches(pod, asked.query.get("labelSelector", ""))]
            return 200, {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": found}
        if asked.method == "POST":
            return 201, self._add(asked.body)
        if name not in self.pods:
            return None
        if asked.method == "PATCH":
            self.pods[name]["metadata"]["labels"] |= asked.body["metadata"]["labels"]
        return 200, self.pods.pop(name) if asked.method == "DELETE" else self.pods[name]

    def _add(self, pod: Json) -> Json:
        """The pod, begun, and ended unless its phase says that it runs."""
        name, number = pod["metadata"]["name"], len(self.pods)
        made = {"namespace": "default", "creationTimestamp": f"2026-01-01T00:00:{number:02d}Z", "uid": name}
        self.pods[name] = {**pod, "metadata": {**pod["metadata"], **made}, "status": status_of(pod, self.phase)}
        return self.pods[name]

    def _follow(self, name: str) -> tuple[int, Any]:
        """A pod's log, to its end: whoever has read it sees that the pod has ended well."""
        self.pods[name]["status"] = status_of(self.pods[name], "Succeeded")
        return 200, ""


def status_of(pod: Json, phase: str) -> Json:
    """The status of a pod in this phase, and of its containers."""
    running, code = phase == "Running", 0 if phase == "Succeeded" else 1
    at = {"running": {"startedAt": BEGAN}}
    over = {"terminated": {"exitCode": code, "startedAt": BEGAN, "finishedAt": BEGAN}}
    known = {"ready": running, "restartCount": 0, "imageID": "", "state": at if running else over}
    containers = [{"name": c["name"], "image": c.get("image", ""), **known} for c in pod["spec"]["containers"]]
    return {"phase": phase, "containerStatuses": containers}


def matches(pod: Json, selector: str) -> bool:
    """Whether a pod's labels are as a selector says: ``a=b``, ``a!=b`` and ``!a``, all of them."""
    labels = pod["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        if term.startswith("!"):
            fits = term[1:] not in labels
        elif "!=" in term:
            name, _, value = term.partition("!=")
            fits = labels.get(name) != value
        else:
            name, _, value = term.partition("=")
            fits = labels.get(name) == value
        if not fits:
            return False
    return True


@contextlib.contextmanager
def kubernetes_cluster() -> Iterator[Cluster]:
    """A cluster for the length of the block."""
    cluster = Cluster()
    with stub_api(cluster.answer) as api:
        cluster.api = api
        yield cluster
