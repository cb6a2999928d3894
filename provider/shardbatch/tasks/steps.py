# SPDX-License-Identifier: Apache-2.0
"""The steps of the run at hand: each is one use-case, for this run's consumer and owner."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardbatch.control.claimable import Claimable
    from shardbatch.core.batch import Batch
    from shardbatch.core.looks import Looks
    from shardbatch.core.owner import Owner
    from shardbatch.core.start import Work
    from shardbatch.core.watermark import Watermark
    from shardbatch.run import Claim, Committed, Consumer, Ended, Frozen, Landed

    __all__ = ["Claim", "Committed", "Frozen", "Landed", "Steps"]


@dataclass(frozen=True)
class Steps:
    """What a task may do for the run that it belongs to."""

    consumer: Consumer
    owner: Owner

    def claimable(self) -> Claimable:
        """The question whether there is something that this run could claim."""
        from shardbatch.control.claimable import Claimable

        consumer = self.consumer
        lease_duration_ms = round(consumer.options.lease_duration.total_seconds() * 1000)
        return Claimable(consumer.deployment, lease_duration_ms, str(self.owner), consumer.liveness)

    def claim(self, looks: Looks | None = None) -> Claim:
        """Find this run's work.

        :param looks: what earlier passes of this claim saw, for a caller that can come back; default: it cannot.
        :raises LookAgain: if it has to.
        """
        from shardbatch.run import claim, end_reading

        claimed = claim(self.consumer, self.owner, looks)
        end_reading(self.consumer, self.owner)
        return claimed

    def land(self, group: str, tip_ms: int | None, stop: threading.Event, seconds: float = math.inf) -> Landed:
        """Read a group's shards; ``tip_ms`` is where the stream ends for this run, default now; ``seconds`` is the time
        after which nothing more is read, default none."""
        from shardbatch.run import end_reading, land

        tip_ms = self.consumer.now_ms() if tip_ms is None else tip_ms
        landed = land(self.consumer, self.owner, group, tip_ms, stop=stop, seconds=seconds)
        end_reading(self.consumer, self.owner, group)
        return landed

    def freeze(
        self,
        handed: str | None,
        claim: str,
        ended: Ended | None = None,
        may_replay: Callable[[Batch], None] | None = None,
        *,
        first: bool = False,
        looks: Looks | None = None,
    ) -> Frozen:
        """Freeze what was landed, or open the next attempt of this run's batch.

        :param handed: the batch that claim found.
        :param claim: tells the claim from others of this run.
        :param ended: ends what the batch's last attempt left behind; default: its end is waited for.
        :param may_replay: raises if an attempt of a committed batch would lead to nothing.
        :param first: no freeze ran behind this claim before.
        :param looks: what earlier passes saw, for a caller that can come back; default: it cannot.
        :raises LookAgain: if it has to.
        :raises LeaseLost: also if a batch that was frozen behind this claim went to another run meanwhile.
        """
        from shardbatch.run import freeze, nothing_ended

        return freeze(
            self.consumer,
            self.owner,
            handed,
            ended or nothing_ended,
            claim=claim,
            first=first,
            looks=looks,
            may_replay=may_replay or (lambda batch: None),
        )

    def commit(self, batch_id: str | None, attempt: int, works: Sequence[Work]) -> Committed:
        """Decide the batch of this run and move its checkpoints.

        :param works: the task instances of the block that ended as a success.
        :raises LeaseLost: also if another run took the batch over and has committed it.
        """
        from shardbatch.run import commit

        done = commit(self.consumer, self.owner, batch_id, attempt, works=works)
        if done.batch_id is not None and attempt < done.decided:
            self.require_own(done.batch_id)
        return done

    def send_event(self, batch_id: str, clearing: str, is_out: Callable[[int], bool]) -> bool:
        """Whether the event of a committed batch goes out with the success of this try of a commit.

        :param clearing: what the tries of a task have in common until it is cleared.
        :param is_out: whether the event is out that a commit of another clearing came to send at that time.
        """
        from shardbatch.run import send_event

        return send_event(self.consumer, self.owner, batch_id, clearing, is_out)

    def watermark(self) -> Watermark:
        """Up to when all that arrived for the live application is committed now, by two looks at its rows.

        :raises StoreError: if they cannot be read.
        """
        from shardbatch.control.status import committed_up_to

        return committed_up_to(self.consumer.store, self.consumer.namespace)

    def require_own(self, batch_id: str) -> None:
        """See that a batch is this run's.

        :raises LeaseLost: naming who has it, if it is another's.
        """
        from shardbatch.run.attempt import expect_batch, lost

        batch = expect_batch(self.consumer, batch_id)
        if batch.owner != str(self.owner):
            raise lost(batch)
