# SPDX-License-Identifier: Apache-2.0
"""Small files through Spark's own file systems: what Spark can read and write, an application needs no key for."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shardbatch.errors import ConfigurationError, StagingError
from shardbatch.landing.location import joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def spark_errors() -> tuple[type[Exception], ...]:
    """What Spark and, where there is one, its JVM raise."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:  # a client of Spark Connect
        return (PySparkException,)
    return (PySparkException, Py4JError)


@contextmanager
def explained(doing: str, where: str) -> Iterator[None]:
    """Turn what Spark or Hadoop says into a :class:`StagingError` that names the place and the remedy."""
    try:
        yield
    except spark_errors() as error:
        java = getattr(error, "java_exception", None)
        reason = (java.toString() if java is not None else str(error)).strip().splitlines()[0][:300]
        raise StagingError(
            f"Spark could not {doing} {where}: {reason}.",
            remedy="See that the cluster may reach it; if it knows the file system by another scheme, say so: "
            "open_batch(schemes={'s3': 's3a'}) or SHARDBATCH_SCHEMES=s3=s3a.",
            path=where,
        ) from error


class FrameFiles:
    """By data frames alone: works wherever a session does, Spark Connect included, at the price of a small job each."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def read(self, uri: str) -> bytes:
        """A file's content."""
        with explained("read", uri):
            rows = self._binary().load(uri).select("content").collect()
        if len(rows) != 1:
            raise StagingError(f"{uri} is not one file.", path=uri)
        return bytes(rows[0][0])

    def read_all(self, folder: str) -> dict[str, bytes]:
        """The content of every file in a folder that is not hidden, by name; none if there is no such folder."""
        rows = self._listed(folder, "path", "content")
        return {str(row[0]).rpartition("/")[2]: bytes(row[1]) for row in rows}

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; none if there is no such folder."""
        return sorted(str(row[0]).rpartition("/")[2] for row in self._listed(folder, "path"))

    def there(self, folder: str) -> bool:
        """Whether a folder has a file in it, at any depth."""
        return bool(self._listed(folder, "path", deep=True, limit=1))

    def put(self, folder: str, name: str, content: str) -> None:
        """Write a text as a file of a new folder. Spark chooses the file's name; it is whole when it is seen."""
        from pyspark.sql import functions as F

        with explained("write", folder):
            frame = self.spark.range(1, numPartitions=1).select(F.lit(content).alias("value"))
            frame.write.mode("error").text(folder)

    def qualified(self, uri: str) -> str:
        """The whole URI of a place as an application wrote it."""
        if not uri.startswith("/") and ":" not in uri:
            raise ConfigurationError(f"The output {uri!r} is a relative path.", remedy="Give its whole URI.")
        return uri.rstrip("/")

    def _binary(self, deep: bool = False) -> Any:
        reader = self.spark.read.format("binaryFile").option("ignoreMissingFiles", "false")
        return reader.option("recursiveFileLookup", str(deep).lower()).option("ignoreCorruptFiles", "false")

    def _listed(self, folder: str, *columns: str, deep: bool = False, limit: int = 0) -> list[Any]:
        from pyspark.errors import AnalysisException

        with explained("list", folder):
            try:
                frame = self._binary(deep).load(folder).select(*columns)
                return list((frame.limit(limit) if limit else frame).collect())
            except AnalysisException as error:
                if "PATH_NOT_FOUND" in str(error):
                    return []
                raise


class GatewayFiles(FrameFiles):
    """By Hadoop's file systems in the driver's JVM: no job, and relative paths and default file systems are known."""

    def __init__(self, spark: SparkSession, jvm: Any, conf: Any) -> None:
        super().__init__(spark)
        self._jvm = jvm
        self._conf = conf

    def read(self, uri: str) -> bytes:
        """A file's content."""
        with explained("read", uri):
            stream = self._open(uri)[0].open(self._open(uri)[1])
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; none if there is no such folder."""
        with explained("list", folder):
            filesystem, path = self._open(folder)
            if not filesystem.exists(path):
                return []
            return sorted(str(s.getPath().getName()) for s in filesystem.listStatus(path) if s.isFile())

    def there(self, folder: str) -> bool:
        """Whether a folder has a file in it, at any depth."""
        with explained("list", folder):
            filesystem, path = self._open(folder)
            return bool(filesystem.exists(path) and filesystem.listFiles(path, True).hasNext())

    def put(self, folder: str, name: str, content: str) -> None:
        """Write a text as a file of a new folder; it is whole when it is seen."""
        target = joined(folder, name)
        with explained("write", target):
            filesystem, path = self._open(target)
            hidden = self._path(joined(folder, f".{name}.tmp"))
            stream = filesystem.create(hidden, False)
            try:
                stream.write(content.encode("utf-8"))
            finally:
                stream.close()
            renamed = filesystem.rename(hidden, path)
        if not renamed:
            raise StagingError(f"Spark could not give {target} its name.", path=target)

    def qualified(self, uri: str) -> str:
        """The whole URI of a place as an application wrote it."""
        with explained("find", uri):
            filesystem, path = self._open(uri)
            return str(filesystem.makeQualified(path).toString())

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)

    def _open(self, uri: str) -> tuple[Any, Any]:
        path = self._path(uri)
        return path.getFileSystem(self._conf), path


def files_of(spark: SparkSession) -> FrameFiles:
    """The better way that this session allows: some give no access to the JVM."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return FrameFiles(spark)
    try:
        context: Any = spark.sparkContext
        files = GatewayFiles(spark, context._jvm, context._jsc.hadoopConfiguration())
        files.qualified("/")
    except (AttributeError, StagingError):  # what the JVM itself refuses comes as a StagingError
        return FrameFiles(spark)
    return files
