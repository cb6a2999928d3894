# SPDX-License-Identifier: Apache-2.0
"""How the places of files are written: plain paths and URIs of one file system in their several spellings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(.*)$", re.DOTALL)
#: One kind of file system, its schemes.
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs", "local": "file"}


@dataclass(frozen=True)
class Location:
    """``kind`` of file system (``file``, ``s3``, ``gs``, ``abfs``, ``hdfs``, …) and the path that it knows."""

    kind: str
    path: str

    @property
    def local(self) -> bool:
        """Whether it is on this machine's own file system."""
        return self.kind == "file"


def locate(text: str) -> Location:
    """Where a plain path or a URI points: ``s3://b/k``, ``s3a://b/k``; ``/k``, ``file:/k``, ``file:///k``, …

    Nothing is decoded: Hadoop and shardbatch take a URI's path as it stands.
    """
    found = _SCHEME.match(text)
    if not found:
        return Location("file", _trimmed(text))
    scheme, rest = found.group(1).lower(), found.group(2)
    kind = _SAME.get(scheme, scheme)
    authority = ""
    if rest.startswith("//"):
        authority, slash, tail = rest[2:].partition("/")
        rest = slash + tail
    if kind in ("file", "hdfs", "viewfs"):
        return Location(kind, _trimmed(rest or "/"))
    if kind == "abfs":
        authority = authority.partition("@")[0]
    return Location(kind, _trimmed(f"{authority}{rest}".lstrip("/")))


def joined(folder: str, *names: str) -> str:
    """Names below a folder, with one slash between."""
    return "/".join([_trimmed(folder) if folder != "/" else "", *names])


def rewritten(uri: str, schemes: Mapping[str, str]) -> str:
    """The URI under the scheme that this cluster knows, such as ``{"s3": "s3a"}``."""
    found = _SCHEME.match(uri)
    if found and found.group(1).lower() in schemes:
        return f"{schemes[found.group(1).lower()]}:{found.group(2)}"
    return uri


def _trimmed(path: str) -> str:
    return path.rstrip("/") or path[:1]
