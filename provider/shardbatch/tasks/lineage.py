# SPDX-License-Identifier: Apache-2.0
"""What read, work and commit tell OpenLineage: datasets, and which ranges of which shards they are.

Nothing of OpenLineage is imported until Airflow asks for lineage, which it does only where its provider is installed
and switched on. What fails here is logged by that provider, and changes nothing for the task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shardbatch.core.manifest import Manifest
from shardbatch.core.rows import Namespace
from shardbatch.hooks.names import asset_uri
from shardbatch.landing.layout import namespace_folder
from shardbatch.landing.location import place

if TYPE_CHECKING:
    from shardbatch.core.slice import Slice
    from shardbatch.run import Rows
    from shardbatch.tasks.application import ApplicationSpec

#: Shards whose range a facet has, the first by their ids; of the others it has the number. Some 30 KB.
NAMED_SHARDS = 100
#: The key of the facet.
FACET = "shardbatch_batch"
#: The namespace of a stream whose source gives it no address that begins with the place where it is.
ELSEWHERE = "shardbatch"

#: A dataset's namespace and name.
Names = tuple[str, str]


def of_read(spec: ApplicationSpec, slices: Sequence[Slice]) -> Any:
    """The lineage of a read task: from the stream to the application's folder in staging.

    :param spec: with its templates rendered.
    :param slices: what the task has landed.
    """
    with _rows(spec) as rows:
        application = rows.application()
    stream = stream_names("" if application is None else application.stream_id, rows.namespace.stream_name)
    content = content_of(slices)
    return _lineage([(stream, content)], [(staging_names(spec.staging.uri, rows.namespace), content)])


def of_work(spec: ApplicationSpec, batch_id: str, roots: Iterable[str]) -> Any:
    """The lineage of an application: from staging to the output roots that it wrote to.

    :param spec: with its templates rendered.
    """
    manifest = _manifest(spec, batch_id)
    content = content_of([entry.slice for entry in manifest.slices], batch_id)
    return _lineage([(staging_names(manifest.staging, manifest.namespace), content)], _roots(roots, content))


def of_commit(spec: ApplicationSpec, scope: str, batch_id: str) -> Any:
    """The lineage of a commit: from staging to the output roots that the decision shows, and to the asset.

    :param spec: with its templates rendered.
    :param scope: of the batch's row.
    """
    manifest = _manifest(spec, batch_id)
    with _rows(spec, scope) as rows:
        batch = rows.batch(batch_id)
    content = content_of([entry.slice for entry in manifest.slices], batch_id)
    namespace = manifest.namespace
    shown = () if batch is None else (root for start in batch.starts for root in start.outputs)
    asset = asset_names(asset_uri(namespace.app_name, namespace.stream_name))
    return _lineage(
        [(staging_names(manifest.staging, namespace), content)], [*_roots(shown, content), (asset, content)]
    )


def asset_dataset(asset: Any, lineage_context: Any) -> Any:
    """Our asset as a dataset, which is the one that a commit writes; Airflow calls this for inlets and outlets."""
    from openlineage.client.event_v2 import Dataset

    namespace, name = asset_names(asset.uri)
    return Dataset(namespace=namespace, name=name)


def asset_names(uri: str) -> Names:
    """Our asset, by its URI: the application, and in it the stream."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/")


def stream_names(identity: str, stream_name: str) -> Names:
    """A stream, by what tells it from others of its name: of an ARN, the service with region and account."""
    parts = identity.split(":")
    return (":".join(parts[:5]) if parts[0] == "arn" and len(parts) > 5 else ELSEWHERE), stream_name


def staging_names(uri: str, namespace: Namespace) -> Names:
    """What an application has of a stream in staging."""
    return folder_names(f"{uri.rstrip('/')}/{namespace_folder(namespace)}")


def folder_names(uri: str) -> Names:
    """A folder, as OpenLineage names it: the bucket and the key, or ``file`` and the path."""
    parts = urlsplit(place(uri))
    if parts.scheme == "file":
        return "file", parts.path
    path = parts.path if parts.scheme == "hdfs" else parts.path.strip("/")
    # What stands before an @ is a container of Azure's; elsewhere a person may have written a secret there.
    authority = parts.netloc if parts.scheme == "abfs" else parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{authority}", path or "/"


def content_of(slices: Sequence[Slice], batch_id: str | None = None) -> dict[str, Any]:
    """The fields of the facet, of a bounded size however many shards there are."""
    named = sorted(slices, key=lambda slice: slice.shard_id)[:NAMED_SHARDS]
    return {
        "batchId": batch_id,
        "shards": len(slices),
        "records": sum(slice.records for slice in slices),
        "bytes": sum(slice.raw_bytes for slice in slices),
        "gaps": sum(len(slice.gaps) for slice in slices),
        "leftOut": len(slices) - len(named),
        "ranges": [
            {
                "shardId": slice.shard_id,
                "after": str(slice.after),
                "until": str(slice.until),
                "last": slice.last,
                "records": slice.records,
                "gaps": len(slice.gaps),
            }
            for slice in named
        ],
    }


def _roots(roots: Iterable[str], content: dict[str, Any]) -> list[tuple[Names, dict[str, Any]]]:
    return [(names, content) for names in sorted({folder_names(root) for root in roots})]


def _lineage(inputs: Sequence[tuple[Names, dict[str, Any]]], outputs: Sequence[tuple[Names, dict[str, Any]]]) -> Any:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import Dataset

    from shardbatch.tasks.lineage_facet import BatchDatasetFacet

    def made(found: Sequence[tuple[Names, dict[str, Any]]]) -> list[Any]:
        return [
            Dataset(namespace=namespace, name=name, facets={FACET: BatchDatasetFacet(**content)})
            for (namespace, name), content in found
        ]

    return OperatorLineage(inputs=made(inputs), outputs=made(outputs))


def _manifest(spec: ApplicationSpec, batch_id: str) -> Manifest:
    namespace = Namespace(spec.app_name, spec.stream.stream_name)
    return Manifest.loads(spec.staging.open().read_manifest(namespace, batch_id))


@contextlib.contextmanager
def _rows(spec: ApplicationSpec, scope: str = "") -> Iterator[Rows]:
    from shardbatch.run import Rows

    with contextlib.closing(spec.leases.open()) as store:
        yield Rows(namespace=Namespace(spec.app_name, spec.stream.stream_name), store=store, scope=scope)
