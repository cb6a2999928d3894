# SPDX-License-Identifier: Apache-2.0
"""What a verb is: its words, its arguments and its use-case, for the command line and for the operators alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardbatch.core.ports import Clock, Landing, LeaseStore, Liveness
    from shardbatch.core.rows import Namespace

#: What a verb does, given its ``Action`` and what was chosen; the rows of its answer.
UseCase = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class Argument:
    """An argument that a person gives to a verb.

    :param name: its name as the use-case takes it.
    :param flag: its word on the command line; without dashes in front it is known by its place there.
    :param help: what it means, on the command line.
    :param field: its name as the operator has it, default: ``name``.
    :param required: whether it must be given, default no.
    :param many: whether it may be given again, default no.
    :param switch: whether it is a switch, default no; then what was given may also be the text of a template.
    :param default: its default value on the command line.
    :param parse: makes a value from its text, and raises ``ValueError`` for an invalid text. Default: it stays a text.
    :param read: converts the given value for the use-case; default: unchanged.
    :param words: what a shell offers to complete it, default none; others may be given, too.
    """

    name: str
    flag: str
    help: str
    field: str = ""
    required: bool = False
    many: bool = False
    switch: bool = False
    default: Any = None
    parse: Callable[[str], Any] | None = None
    read: Callable[[Any], Any] | None = None
    words: tuple[str, ...] = ()

    @property
    def given_as(self) -> str:
        """Its name among the parsed words of a command line."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def parameter(self) -> str:
        """Its name among the arguments of the operator."""
        return self.field or self.name


#: Goes on although an owner is at work. A verb that has it asks whether one is; every other one does what it is told.
FORCE = Argument(
    "force",
    "--force",
    "Also what an owner is, or may be, at work on; that run then fails without having changed anything",
    switch=True,
    default=False,
)


@dataclass(frozen=True, kw_only=True)
class Verb:
    """One thing that a person does to an application.

    :param name: its word on the command line.
    :param past: what its answer and its notes call it when it is done.
    :param help: what it does, in one line.
    :param more: what else has to be known before it is called.
    :param word: as its preview calls it (``would park``), default: ``name``.
    :param arguments: what a person chooses, beside the application, the reason and the preview.
    :param use_case: loads what does it; none: a command of its own goes about it.
    :param operator: its public operator, if it has one.
    :param staging: whether it reaches staging and output roots, where they are at hand; default no.
    :param places: whether it compares spellings of output roots, default no.
    :param archives: whether it takes ``archive_for``, for which the setting stands in, and leaves what a run is at work
        on; default no.
    :param positions: whether it takes positions in some format; then it asks the stream, too, and may make the tables
        of the lease store. Default no.
    :param removes: whether it removes an application: then it reaches what that registered with its stream, and leaves
        what a run is at work on. Default no.
    """

    name: str
    past: str
    help: str
    more: str = ""
    word: str = ""
    arguments: tuple[Argument, ...] = ()
    use_case: Callable[[], UseCase] | None = None
    operator: str = ""
    staging: bool = False
    places: bool = False
    archives: bool = False
    positions: bool = False
    removes: bool = False

    @property
    def would(self) -> str:
        """As the preview calls it."""
        return self.word or self.name

    @property
    def asks(self) -> bool:
        """Whether it leaves what has an owner at work, unless it is forced."""
        return FORCE in self.arguments

    def chosen(self, given: Callable[[Argument], Any]) -> dict[str, Any]:
        """What the use-case takes of what was given.

        :raises ConfigurationError: if something that was given cannot be read.
        """
        from shardbatch.core.choices import flag_of

        found = {
            argument.name: flag_of(argument.parameter, given(argument)) if argument.switch else given(argument)
            for argument in self.arguments
        }
        readers = {argument.name: argument.read for argument in self.arguments if argument.read is not None}
        return {name: readers[name](value) if name in readers else value for name, value in found.items()}

    def act(
        self,
        store: LeaseStore,
        namespace: Namespace,
        *words: Any,
        actor: str,
        reason: str,
        scope: str = "",
        dry_run: bool = True,
        liveness: Liveness | None = None,
        force: bool = False,
        landing: Landing | None = None,
        clock: Clock | None = None,
        **chosen: Any,
    ) -> tuple[Any, ...]:
        """Act, or only report what would be done.

        :param actor: the person or run that acts; it is named in the notes.
        :param reason: why; needed unless this is a preview.
        :param scope: that of an interval run, default: the live application.
        :param dry_run: only report what would be done (default).
        :param liveness: says whether an owner has finished, asked once for each; default: this cannot be asked.
        :param force: act also on what has an owner at work, default no.
        :param landing: reaches staging and output roots; default: they are not available.
        :param clock: default: this machine's.
        """
        from shardbatch.control.action import Action, asked_once
        from shardbatch.core.ports import SYSTEM_CLOCK

        assert self.use_case is not None, self.name
        action = Action(
            verb=self,
            namespace=namespace,
            store=store,
            scope=scope,
            clock=clock or SYSTEM_CLOCK,
            actor=actor,
            reason=reason,
            dry_run=dry_run,
            liveness=None if liveness is None else asked_once(liveness),
            force=force,
            landing=landing,
        )
        return tuple(self.use_case()(action, *words, **chosen))
