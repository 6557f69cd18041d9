"""The model that a group predicts with, gathered from what its partitions have committed."""

from __future__ import annotations

from typing import Any

from fwonline.exceptions import CheckpointError
from fwonline.loop import codec
from fwonline.loop.group.merging import merge
from fwonline.loop.group.states import PartitionStates
from fwonline.stream.shared import Exchange, SharedSource

__all__ = ["MergedModel"]


class MergedModel:
    """The merge of the models of all partitions, as far as they are committed.

    Workers refresh one on a schedule. A process that only predicts may have its own: it needs to see the states' folder
    and to reach the brokers, and takes no part in the group.

    Parameters
    ----------
    source
        Says where the group stands. It need not have joined.
    states
        Where the states are.
    exchange
        Where the workers show their models, if they do (`merge_topic`): then `states` are not looked at.

    Attributes
    ----------
    model
        The merge, or None as long as nothing was committed.
    n_partitions
        Of how many partitions it is made.

    """

    def __init__(
        self, source: SharedSource, states: PartitionStates | None = None, exchange: Exchange | None = None
    ) -> None:
        if states is None and exchange is None:
            raise ValueError("expected states or an exchange to find the partitions' models in")
        self.model: Any = None
        self._source = source
        self._states = states
        self._exchange = exchange
        self._marks: dict[str, Any] = {}  # what was looked at last
        self._models: dict[str, Any] = {}

    @property
    def n_partitions(self) -> int:
        return len(self._models)

    def refresh(self) -> bool:
        """Gather what was committed since; whether that changed the model.

        Raises
        ------
        CheckpointError
            When a state that counts is damaged.
        TypeError, ValueError
            When the models cannot be merged.

        """
        is_new = self._from_states() if self._exchange is None else self._from_exchange(self._exchange)
        if is_new:
            self.model = merge([self._models[partition] for partition in sorted(self._models)])
        return is_new

    def _from_exchange(self, exchange: Exchange) -> bool:
        is_new = False
        for partition, (offset, document) in exchange.latest().items():
            if self._marks.get(partition) != offset:
                try:
                    self._models[partition] = codec.loads(document)
                except CheckpointError as error:
                    raise ValueError(f"{partition}@{offset}: {error}") from error
                self._marks[partition] = offset
                is_new = True
        return is_new

    def _from_states(self) -> bool:
        assert self._states is not None
        is_new = False
        for partition, place in self._source.places().items():
            note = place.note
            if note is None or note == self._marks.get(partition) or PartitionStates.is_beginning(note):
                continue
            try:
                self._models[partition] = self._states.read(partition, note)["model"]
            except CheckpointError:
                if self._states.is_there(partition, note):
                    raise
                continue  # superseded between the two looks: the next refresh finds its successor
            self._marks[partition] = note
            is_new = True
        return is_new
