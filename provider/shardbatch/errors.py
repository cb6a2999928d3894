# SPDX-License-Identifier: Apache-2.0
"""The errors of shardbatch.

::

    ShardbatchError
    ├── ConfigurationError          what the author or the deployment wrote cannot work
    │   ├── ConnectionUnknown       Airflow does not know a connection, or its credentials are unavailable at the moment
    │   ├── ApplicationUnknown      the lease store has no such application
    │   ├── UnsupportedSchema       rows, a manifest or a handover of a version that this one cannot read
    │   ├── StreamRecreated         the stream under this name is another one than the checkpoints belong to
    │   ├── ApplicationTaken        another DAG or group already claims this application's leases
    │   ├── OutputTaken             an output root belongs to another application
    │   ├── StagingMoved            unfinished slices or batches are in another folder than staging is set to
    │   ├── ImportUnfinished        an import of leases has begun and has not ended; until then claims fail
    │   ├── InvalidToken            positions that are to be imported are not written as their format wants
    │   └── InvalidStream           positions that are to be imported are those of another stream
    ├── SourceError                 the stream could not be read
    │   ├── StreamNotFound
    │   ├── ShardNotFound
    │   ├── Throttled               refused for the rate; the reader waits and asks again
    │   ├── IteratorExpired         the read begins anew at its last position
    │   └── InvalidAnswer           an answer that cannot be trusted (cut short, no end and no children, …)
    ├── StoreError                  the lease store could not be read or written
    │   └── StoreNotFound           its table is missing and must not be created
    ├── StagingError                landed files or a manifest could not be read or written
    │   ├── StagingMissing          the staging folder itself does not exist
    │   ├── ManifestChanged         a manifest is not the one that was frozen
    │   └── SlicesGone              files of a batch that is to be replayed no longer exist
    ├── ProtocolError               the state of leases and batches forbids this step
    │   ├── LeaseLost               another owner has it now; this one stops and changes nothing
    │   ├── AttemptAlive            an older attempt of the batch may still be running
    │   ├── NothingFinished         no start of the application finished, so there is nothing to commit
    │   ├── WorkFailed              a task of the block failed or did nothing
    │   ├── ReplayRefused           the batch is not committed, or its owner is at work
    │   ├── WorkersAlive            KCL workers move the leases that are to be taken over
    │   ├── VerbRefused             a task that acts for a person left something unchanged
    │   └── BatchParked             the batch waits for a person
    ├── JobFailed                   the Spark application of a batch ended without success
    ├── StartUnfinished             an application ended with success and left a block of open_batch half done
    ├── OwnerUnknown                Airflow could not say whether an owner has finished, so nothing of it is taken
    ├── GapFound                    records expired before they were read
    ├── ShardsFailed                some shards could not be read; the others are committed
    └── Starving                    leases are held by others for too long

Losing a compare-and-set is a value, never an error. Every message ends with what to do next.
"""

from __future__ import annotations

from shardbatch.masking import masked


class ShardbatchError(Exception):
    """Something went wrong in shardbatch."""

    #: What to do next; appended to the message.
    remedy: str = ""
    #: Whether trying the same task again can help.
    retryable: bool = True

    def __init__(self, message: str | None = None, *, remedy: str | None = None, retryable: bool | None = None) -> None:
        text = message or (type(self).__doc__ or "").strip().splitlines()[0]
        if remedy is not None:
            self.remedy = remedy
        if retryable is not None:
            self.retryable = retryable
        self.message = masked(text)  # without the remedy; a driver's words, or a URL, may stand in it
        super().__init__(masked(f"{text} {self.remedy}".strip()))

    def __reduce__(self) -> tuple[object, ...]:
        # Made anew from its message, it would say its remedy twice.
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[ShardbatchError], args: tuple[object, ...]) -> ShardbatchError:
    error = kind.__new__(kind)
    error.args = args
    return error


class ConfigurationError(ShardbatchError):
    """The configuration cannot work."""

    retryable = False


class ConnectionUnknown(ConfigurationError):
    """Airflow does not know a connection, or its credentials are unavailable, permanently or for a moment."""

    retryable = True
    remedy = "It is tried again, because a secrets backend or the API server may have been unavailable for a moment."


class ApplicationUnknown(ConfigurationError):
    """There is no such application in this lease store."""

    remedy = "Check app_name, stream_name and the store. The first claim creates the application."


class UnsupportedSchema(ConfigurationError):
    """Rows, a manifest or what an application is handed were written by a version that this one cannot read."""

    remedy = "Install the same version of shardbatch on every worker and cluster that shares this store."


class StreamRecreated(ConfigurationError):
    """The stream was deleted and created again under its name; the checkpoints belong to the old one."""

    remedy = (
        "Start again on it with 'airflow shardbatch reset --all --stream-id' and the new identity. Or choose another "
        "app_name: then the rows of the old stream stay unchanged."
    )


class ApplicationTaken(ConfigurationError):
    """Another DAG or group already claims this application's leases; each would get a part of the records."""

    remedy = (
        "Give this one an app_name of its own. If both are to divide the shards, or this one replaces the other, "
        "set claim=ClaimOptions(shared=True)."
    )


class OutputTaken(ConfigurationError):
    """An output root belongs to another application; readers would see the records of both."""

    remedy = (
        "Give this application a root of its own. If both are meant to write there, set output=Outputs(shared=True) in "
        "both. If this one replaces the other, 'airflow shardbatch adopt-root' hands the root over."
    )


class StagingMoved(ConfigurationError):
    """Unfinished slices, or an unfinished batch, are in another folder than the one that staging is set to."""

    remedy = (
        "Set staging back to the old folder until a run has committed them, then change it. If its files are gone: "
        "drop the batch ('airflow shardbatch drop'), and reset the shards to where they stand ('airflow shardbatch "
        "reset --shard ... --to' with the checkpoint that 'airflow shardbatch shards' shows): they are read again, as "
        "far as the stream still has the records."
    )


class ImportUnfinished(ConfigurationError):
    """An import of leases into this application has begun and has not ended; until then claims fail."""

    remedy = (
        "Run the import again that began it ('airflow shardbatch import-kcl' or 'positions import'): it finishes it. "
        "Or choose another app_name."
    )


class ApplicationRemoved(ConfigurationError):
    """A person removed this application: nothing of it is claimed, frozen or committed any more."""

    remedy = "Choose another app_name. To use this one again, end its runs, then give 'remove' --free-name."


class InvalidToken(ConfigurationError):
    """Positions that are to be imported are not written as their format wants, or contradict themselves."""

    remedy = "Take the text as the other program writes it, whole and unchanged, or export it anew."


class InvalidStream(ConfigurationError):
    """Positions that are to be imported are those of another stream."""

    remedy = (
        "Name the stream that they belong to. If it was deleted or enabled anew since, they are worth nothing: let the "
        "application begin at TRIM_HORIZON instead, without an import."
    )


class SourceError(ShardbatchError):
    """The stream could not be read."""

    remedy = "Retry the task: nothing was committed."


class StreamNotFound(SourceError):
    """The stream does not exist."""

    remedy = "Check the stream's name in the DAG, and its connection."
    retryable = False

    def __init__(
        self,
        message: str | None = None,
        *,
        stream: str | None = None,
        remedy: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, retryable=retryable)
        #: The stream's name, ``None`` where only the message has it.
        self.stream = stream


class ShardNotFound(SourceError):
    """The shard is gone from the stream."""

    remedy = "Its retention has passed. The unread part of it is recorded as a gap."


class Throttled(SourceError):
    """The service refused a call for its rate."""

    remedy = "Other readers share what the service allows: lower their rate."


class IteratorExpired(SourceError):
    """The service has forgotten the place of a read: it was not asked in time."""


class InvalidAnswer(SourceError):
    """The service's answer is incomplete or contradicts itself, so it is not used."""


class StoreError(ShardbatchError):
    """The lease store could not be read or written."""

    remedy = "Check the store's connection and its permissions; the task may be retried."


class StoreNotFound(StoreError):
    """The lease store's table does not exist."""

    remedy = "Create it (docs/stores.md has the definitions) or set create=True."
    retryable = False


class StagingError(ShardbatchError):
    """The staging area could not be read or written."""

    remedy = "Check that the staging folder exists, that the workers may write to it, and that it has space left."

    def __init__(
        self,
        message: str | None = None,
        *,
        path: str | None = None,
        remedy: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, retryable=retryable)
        #: The file or folder that it is about, ``None`` where only the message has it.
        self.path = path


class StagingMissing(StagingError):
    """The staging folder does not exist. It is not created: a missing mount must not become an empty folder."""

    remedy = "Mount it on every worker, or create it so that the workers' user may write to it; then clear the task."
    retryable = False


class ManifestChanged(StagingError):
    """The manifest is not the one that was frozen: its digest differs from the batch row's."""

    remedy = "Restore the file from a backup of the staging area; never edit a manifest."
    retryable = False

    def __init__(
        self,
        message: str | None = None,
        *,
        uri: str | None = None,
        remedy: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, path=uri, remedy=remedy, retryable=retryable)
        #: The manifest's URI, ``None`` where only the message has it.
        self.uri = uri


class SlicesGone(StagingError):
    """Files of a batch that is to be replayed are no longer in staging, or clean-up has retired the batch."""

    remedy = "Restore them under the same names from a backup of staging. Without them the batch cannot be replayed."
    retryable = False


class ProtocolError(ShardbatchError):
    """The state of leases and batches forbids this step."""

    retryable = False
    #: The batch that it is about, and who has that, as its row says; both empty if it is about none.
    batch_id: str = ""
    owner: str = ""


class LeaseLost(ProtocolError):
    """Another owner has this work; nothing was changed."""

    remedy = "Nothing is lost: the other owner finishes it. 'airflow shardbatch status' shows who has it."


class AttemptAlive(ProtocolError):
    """An older attempt of this batch may still be running."""

    remedy = "It is tried again. To speed this up, end the older application, or lower attempt_grace."
    retryable = True


class NothingFinished(ProtocolError):
    """No start of the application finished, so there is nothing to commit."""

    remedy = (
        "Run the work under 'with open_batch(spark) as batch' and write to batch.output(...), "
        'or set policies=Policies(sink="own") if the sink is atomic by itself.'
    )


class JobFailed(ShardbatchError):
    """The Spark application of a batch ended without success."""

    remedy = "Nothing is lost: fix the job, then clear this task; the same batch runs again."


class StartUnfinished(ShardbatchError):
    """An application has ended, but it left a block of open_batch with an error, or ended inside the block."""

    remedy = "Let errors leave the block and end the application; then run the task again."


class WorkFailed(ProtocolError):
    """A task of the block failed or did no work, so nothing is committed."""

    remedy = "Fix the task and clear it; the same batch runs again."


class ReplayRefused(ProtocolError):
    """The batch cannot be replayed now; nothing was changed."""

    remedy = "Let that run end, or end it, and try again. Or clear that run: a cleared run replays its batch."


class WorkersAlive(ProtocolError):
    """KCL workers still change the leases that are to be taken over."""

    remedy = (
        "Stop every worker of that KCL application, then run 'airflow shardbatch import-kcl' again. A longer --watch "
        "finds workers with a longer failover time."
    )


class VerbRefused(ProtocolError):
    """The requested action was not done, or not completely; each row says why."""

    remedy = "Do what the reasons say and clear this task: what is already done is not done again."


class BatchParked(ProtocolError):
    """The batch is parked."""

    remedy = (
        "Fix the work and resume it with 'airflow shardbatch unpark --batch', or let its shards go on without it with "
        "'airflow shardbatch set-aside --batch'."
    )


class OwnerUnknown(ShardbatchError):
    """Airflow could not say whether the owner of a lease has finished, so nothing of it is taken."""

    remedy = "Retry the task. Check that the API server answers and that the worker may ask it about other runs."


class GapFound(ShardbatchError):
    """Records expired before they were read."""

    remedy = (
        "Look at 'airflow shardbatch shards'. 'airflow shardbatch accept-gap' records the gap and lets the shards go "
        'on with what is left; policies=Policies(gap="record") does so for every gap.'
    )
    retryable = False


class ShardsFailed(ShardbatchError):
    """Some shards could not be read; all others are committed."""

    remedy = "The next run tries them again. The log names each shard and its error."
    retryable = False


class Starving(ShardbatchError):
    """Leases have been held by others for longer than stuck_after while records wait."""

    remedy = (
        "'airflow shardbatch status' names the owners. End their runs, or free stale leases with "
        "'airflow shardbatch release'."
    )
    retryable = False


class WaitEnded(ShardbatchError):
    """What a sensor waits for can never be."""

    retryable = False
