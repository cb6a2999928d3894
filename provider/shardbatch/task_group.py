# SPDX-License-Identifier: Apache-2.0
"""StreamBatch, the task group that a DAG author writes: claim >> read >> freeze >> the author's work >> commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup, TriggerRule

from shardbatch.assets import committed_batches
from shardbatch.block_rules import dag_fault, end_fault, place_fault, time_fault, wait_fault
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions, Outputs, Policies, Sink
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.leases import Leases
from shardbatch.hooks.renamed import renamed
from shardbatch.hooks.staging import Staging
from shardbatch.hooks.streams import Stream
from shardbatch.operators.claim import ClaimOperator
from shardbatch.operators.commit import CommitOperator, ReportOperator
from shardbatch.operators.end_record import is_given, record_ends
from shardbatch.operators.freeze import FreezeOperator
from shardbatch.operators.links import add_link
from shardbatch.operators.read import LABEL, ReadOperator
from shardbatch.tasks.application import ApplicationSpec

if TYPE_CHECKING:
    from airflow.sdk import XComArg
    from airflow.sdk.definitions._internal.node import DAGNode

#: How often our tasks are retried where neither ``task_args`` nor any default_args say it.
RETRIES = {"retries": 3}
#: After how long they are retried; used only if none is set, so that ours are not mixed with the author's.
RETRY_DELAYS = {
    "retry_delay": timedelta(seconds=10),
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=5),
}
#: The tasks that a group makes, as their authors are told; each by its class.
STEPS = {
    "claim": ClaimOperator,
    "read": ReadOperator,
    "freeze": FreezeOperator,
    "commit": CommitOperator,
    "report": ReportOperator,
}
OURS = tuple(STEPS)
#: Arguments of every operator that hold the group together.
HELD = frozenset(
    {
        *("task_id", "trigger_rule", "task_group", "dag", "depends_on_past", "wait_for_downstream", "outlets"),
        *("do_xcom_push", "multiple_outputs", "map_index_template", "default_args"),
    }
)


def _own_arguments(operator: type) -> Iterator[str]:
    """What an operator of ours takes beside what Airflow's own do, also by old names."""
    for kind in operator.__mro__:
        if kind.__module__.startswith("shardbatch.") and "__init__" in vars(kind):
            made = vars(kind)["__init__"]
            yield from (one.name for one in signature(made).parameters.values() if one.kind is Parameter.KEYWORD_ONLY)
            yield from getattr(made, "old_names", ())


#: Arguments of our tasks that ``task_args`` may not give: a group needs them, or has them itself.
FIXED = HELD.union(*map(_own_arguments, STEPS.values()))


@renamed(policy="policies")
class StreamBatch(TaskGroup):
    """A batch of a stream. The tasks in the ``with`` block work on it; when all succeed, the checkpoints move.

    An empty block only lands records: with ``Policies(sink="own")`` commit follows freeze at once, and the product is
    the landed files that ``committed["manifest_uri"]`` describes.

    The group makes the tasks ``claim``, ``read`` (mapped), ``freeze``, ``commit`` and ``report``. ``report`` stands
    beside the group and fails if something must fail the run after its commit.
    ``manifest_uri``, ``manifest_digest``, ``batch_id``, ``attempt`` and ``record_count`` are outputs of ``freeze`` for
    templated fields. ``args`` and ``environment`` contain the same in the form that an application takes.
    ``committed`` is the outcome.

    :param group_id: as in ``TaskGroup``; it is a part of the owner's name on the leases.
    :param app_name: names an independent consumer of the stream; no slash.
    :param stream: the stream to read.
    :param leases: where leases are kept, default: the setting ``[shardbatch] leases``.
    :param staging: where slices and manifests are kept, default: the setting ``[shardbatch] staging``.
    :param limits: how much one run reads, default ``ReadLimits()``.
    :param claim: how leases are claimed, default ``ClaimOptions()``.
    :param policies: what to do when something cannot go on, default ``Policies()``.
    :param output: what the application's output roots are to their readers, default ``Outputs()``.
    :param wait: how long a run waits for something to claim, deferred, before it claims in any case; above zero.
        Default: not at all. ``docs/waiting.md`` says what it waits for.
    :param task_args: further arguments of our tasks by name, as ``{"read": {"pool": "streams"}}``. Default: three
        retries, with a delay that grows from 10 seconds to 5 minutes, each unless ``default_args`` say otherwise.
        ``docs/airflow-settings.md`` has what our tasks make of every argument.
    :param task_group_kwargs: arguments of ``TaskGroup``.
    :raises ConfigurationError: for every mistake that can be found at parse time; it names the DAG and the group.
    """

    def __init__(
        self,
        group_id: str,
        *,
        app_name: str,
        stream: Stream,
        leases: Leases | None = None,
        staging: Staging | None = None,
        limits: ReadLimits | None = None,
        claim: ClaimOptions | None = None,
        policies: Policies | None = None,
        output: Outputs | None = None,
        wait: timedelta | None = None,
        task_args: Mapping[str, Mapping[str, Any]] | None = None,
        **task_group_kwargs: Any,
    ) -> None:
        self._ours: dict[str, Any] = {}
        prefixed = task_group_kwargs.pop("prefix_group_id", True)
        super().__init__(group_id=group_id, prefix_group_id=True, **task_group_kwargs)
        if not prefixed:
            raise self._wrong("the ids of its tasks need its own before them.", "Leave prefix_group_id out.")
        if next(self.iter_mapped_task_groups(), None) is not None:
            raise self._wrong(
                "it stands in a mapped task group, where Airflow cannot map its read task.",
                "Loop in Python instead: one StreamBatch for each stream.",
            )
        more = {"group_id": self.group_id, "limits": limits, "claim": claim, "policies": policies, "outputs": output}
        try:
            self.spec = ApplicationSpec.of(app_name, stream, leases, staging, **more)
        except ConfigurationError as error:
            raise self._wrong(str(error), "") from error
        self._task_args = self._checked(task_args or {})
        self._require(dag_fault(self.dag))
        self._require(wait_fault(wait, self.dag.dagrun_timeout))
        self._make_tasks(wait)

    # ------------------------------------------------------------------ what the author uses

    @property
    def app_name(self) -> str:
        """The application's name."""
        return self.spec.app_name

    @property
    def stream(self) -> Stream:
        """The stream that is read."""
        return self.spec.stream

    @property
    def leases(self) -> Leases:
        """Where leases are kept."""
        return self.spec.leases

    @property
    def staging(self) -> Staging:
        """Where slices and manifests are kept."""
        return self.spec.staging

    @property
    def batch_id(self) -> XComArg:
        """The batch's id."""
        return self._frozen("batch_id")

    @property
    def attempt(self) -> XComArg:
        """The number of the attempt for which the block runs."""
        return self._frozen("attempt")

    @property
    def manifest_uri(self) -> XComArg:
        """The URI of the manifest, which has everything that an application needs."""
        return self._frozen("manifest_uri")

    @property
    def manifest_digest(self) -> XComArg:
        """The digest of the manifest as it was frozen."""
        return self._frozen("manifest_digest")

    @property
    def record_count(self) -> XComArg:
        """The number of records in the batch."""
        return self._frozen("record_count")

    @property
    def args(self) -> list[str]:
        """The argument list from which ``open_batch`` finds the batch, for a templated field of an operator that starts
        an application. Its templates also say for which task and which try the application works."""
        found: list[str] = self._ours["freeze"].args
        return found

    @property
    def environment(self) -> dict[str, str]:
        """The same as ``args``, as environment variables for a templated field such as ``env``."""
        found: dict[str, str] = self._ours["freeze"].environment
        return found

    @property
    def committed(self) -> XComArg:
        """The outcome of commit, for tasks after the group: ``batch_id``, ``manifest_uri``, ``newly``, ``records``, ….

        ``batch_id`` and ``manifest_uri`` are ``None`` if there was nothing to commit.
        """
        output: XComArg = self._ours["commit"].output["committed"]
        return output

    def _frozen(self, key: str) -> XComArg:
        output: XComArg = self._ours["freeze"].output[key]
        return output

    # ------------------------------------------------------------------ our tasks

    def _make_tasks(self, wait: timedelta | None) -> None:
        step = self._step_arguments
        claim = ClaimOperator(wait=wait, **step("claim"))
        self._ours["claim"] = claim
        read = ReadOperator.partial(**step("read")).expand(entry=claim.output)
        self._require(time_fault(read.execution_timeout, self.dag.dagrun_timeout, self.spec.limits))
        self._ours["read"] = read
        claimed: Any = claim.output
        freeze = FreezeOperator(
            handed=claimed["batch_id"],
            claim_id=claimed["claim_id"],
            **step("freeze", trigger_rule=TriggerRule.NONE_FAILED),
        )
        self._ours["freeze"] = freeze.as_setup()
        read >> freeze
        commit = CommitOperator(
            freeze_task=freeze.task_id,
            claim_task=claim.task_id,
            read_task=read.task_id,
            **step("commit", trigger_rule=TriggerRule.NONE_FAILED),
        )
        commit.add_outlets([] if "{{" in self.app_name + self.stream.address else [self._asset()])
        self._ours["commit"] = commit
        freeze.commit_task = commit.task_id
        self._ours["report"] = self._make_report(commit)

    def _make_report(self, commit: CommitOperator) -> Any:
        """The task that can fail a run after its commit. It is outside the group: tasks after the group follow commit.

        Airflow would also leave a teardown out of that. But if a person marks a run as failed, Airflow still runs a
        teardown that has not run yet; it then finds every leaf skipped and calls the run a success.
        """
        beside = {
            "task_id": self.child_id("report"),
            "task_group": self.dag.task_group,
            "default_args": self.default_args,
            "trigger_rule": TriggerRule.ALL_SUCCESS,
        }
        report = ReportOperator(problems=commit.output, **{**self._own("report"), **beside})
        report.spec = self.spec
        return report

    def _asset(self) -> Any:
        return committed_batches(self.app_name, self.stream.stream_name)

    def _step_arguments(self, name: str, trigger_rule: TriggerRule = TriggerRule.ALL_SUCCESS) -> dict[str, Any]:
        spec = self.spec
        return {
            **self._own(name),
            "trigger_rule": trigger_rule,
            "app_name": spec.app_name,
            "stream": spec.stream,
            "leases": spec.leases,
            "staging": spec.staging,
            "group_id": spec.group_id,
            "limits": spec.limits,
            "claim": spec.claim,
            "policies": spec.policies,
            "output": spec.outputs,
        }

    def _own(self, name: str) -> dict[str, Any]:
        own = self._task_args.get(name, {})
        said = {**self.dag.default_args, **self.default_args, **own}
        return {
            **({} if said.keys() & RETRIES else RETRIES),
            **({} if said.keys() & RETRY_DELAYS else RETRY_DELAYS),
            **own,
            # Where these stand in default_args they are meant for other tasks: see docs/airflow-settings.md.
            "do_xcom_push": True,
            "multiple_outputs": False,
            "outlets": [],
            "map_index_template": LABEL if name == "read" else None,
            "task_id": name,
            "task_group": self,
            "dag": self.dag,
        }

    def _checked(self, task_args: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        unknown = sorted(task_args.keys() - set(OURS))
        if unknown:
            raise self._wrong(f"task_args names {unknown[0]!r}.", f"Its tasks are {', '.join(OURS)}.")
        for name, arguments in task_args.items():
            fixed = sorted(FIXED & arguments.keys())
            if fixed:
                raise self._wrong(f"task_args gives {fixed[0]} of {name}, which is fixed.", "Leave it out.")
        return {name: dict(arguments) for name, arguments in task_args.items()}

    # ------------------------------------------------------------------ the author's tasks

    def add(self, task: DAGNode) -> DAGNode:
        """Add a task or a group; Airflow calls this.

        :raises ConfigurationError: if its id is one of ours.
        """
        taken = {ours.task_id for ours in self._ours.values()}
        if task.node_id in taken:
            raise self._wrong(
                f"the id {task.node_id!r} is its own.", f"Choose another than {', '.join(OURS)} for what stands inside."
            )
        return super().add(task)

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        super().__exit__(kind, value, traceback)  # type: ignore[no-untyped-call]
        if kind is None:
            self._wire()

    def _wire(self) -> None:
        """Put the author's tasks between freeze and commit."""
        ours = {task.task_id for task in self._ours.values()}
        inside = {task.task_id: task for task in self.iter_tasks() if task.task_id not in ours}
        work = [task for task in inside.values() if not task.is_setup and not task.is_teardown]
        freeze, commit = self._ours["freeze"], self._ours["commit"]
        given = sorted(task.task_id for task in work if is_given(task, freeze.task_id))
        beside = {task.task_id for task in inside.values() if is_given(task, freeze.task_id)} - set(given)
        if not work:
            self._require_landing_only(inside)
            commit.trigger_rule = TriggerRule.ALL_SUCCESS  # it stands directly after freeze, a setup task
            commit.set_upstream(freeze)
        for task in inside.values():
            add_link(task)
            if not task.upstream_task_ids & inside.keys():
                task.set_upstream(freeze)
        for task in inside.values():
            if task not in work and task.task_id in beside:
                raise self._wrong(
                    f"task {task.task_id!r} is a setup or teardown and is given the batch: what it writes would never "
                    "be committed.",
                    "Let a work task use the batch.",
                )
        commit.set_upstream([task for task in work if task.task_id not in commit.upstream_task_ids])
        commit.work = sorted(task.task_id for task in work)
        commit.given = given
        for task in [*inside.values(), *self._ours.values()]:
            self._require(place_fault(task, freeze))
        for task in work:
            self._require(end_fault(task, commit))
        commit.idle = sorted(task.task_id for task in work if task.inherits_from_empty_operator)
        ending = [task for task in work if task.task_id not in commit.idle]
        alone = given or [task.task_id for task in ending]  # code that looks the batch up by itself is not seen
        for task in ending:
            record_ends(task, self.spec, freeze.task_id, only=alone == [task.task_id])
        freeze.skips = sorted(inside)
        claim = self._ours["claim"]
        claim.skips = sorted({*inside, *ours} - {claim.task_id})
        claim.freeze_task = freeze.task_id

    def _require_landing_only(self, inside: Mapping[str, Any]) -> None:
        """Check that a block without work is intended, because its files and manifest are the product."""
        if inside:
            raise self._wrong(
                f"it has no work inside, only {sorted(inside)[0]!r}.",
                "Create the tasks that use the batch within the with block.",
            )
        if self.spec.policies.sink is not Sink.OWN:
            raise self._wrong(
                "it has no work inside.",
                "Create the tasks that use the batch within the with block; or, if the landed files are all that is "
                'wanted, say so with policies=Policies(sink="own").',
            )

    def _require(self, fault: tuple[str, str] | None) -> None:
        if fault is not None:
            raise self._wrong(*fault)

    def _wrong(self, text: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(f"DAG {self.dag.dag_id!r}, StreamBatch {self.group_id!r}: {text}", remedy=remedy)
