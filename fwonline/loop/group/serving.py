"""The model that a group predicts with: the merge of what its partitions have committed."""

from __future__ import annotations

from typing import Any

from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError
from fwonline.loop._kind import difference, kind_of
from fwonline.loop.group.merging import merge
from fwonline.loop.group.states import PartitionStates
from fwonline.stream.group import GroupSource, MergeTopic

__all__ = ["MergedModel"]


class MergedModel:
    """The merge of the models of all partitions, as far as they are committed.

    Workers refresh one on a schedule. A process that only predicts may have its own: it needs the folder of the states
    and the brokers, and does not join the group.

    Parameters
    ----------
    source
        Knows the group's committed offsets. It need not have joined.
    states
        Where the states are.
    merge_topic
        Where the workers publish their models, if they do (`merge_topic`): then `states` are not read. A message that
        is no model, or one of another kind, is refused and counted, and the last model stays.
    model
        The models on the topic must have its class and parameters. By default, those of the first.

    Attributes
    ----------
    model
        The merge, or None as long as nothing is committed.
    n_partitions
        Of how many partitions it is made.
    n_refused
        How many messages of the topic were refused.
    refusal
        Why the last of them was.
    """

    def __init__(
        self,
        source: GroupSource,
        states: PartitionStates | None = None,
        merge_topic: MergeTopic | None = None,
        *,
        model: Any = None,
    ) -> None:
        if states is None and merge_topic is None:
            raise ValueError("expected states or a merge topic to find the partitions' models in")
        self.model: Any = None
        self._source = source
        self._states = states
        self._merge_topic = merge_topic
        self._marks: dict[str, Any] = {}  # offset or note of what was read last
        self._models: dict[str, Any] = {}
        self._kind = None if model is None else kind_of(model)
        self._n_refused = 0
        self._refusal = ""

    @property
    def n_refused(self) -> int:
        return self._n_refused + (0 if self._merge_topic is None else self._merge_topic.n_refused)

    @property
    def refusal(self) -> str:
        return self._refusal or ("" if self._merge_topic is None else self._merge_topic.refusal)

    @property
    def n_partitions(self) -> int:
        return len(self._models)

    def refresh(self) -> bool:
        """Read what was committed since; return whether that changed the model.

        Raises
        ------
        CheckpointError
            When a committed state is damaged.
        TypeError, ValueError
            When the models cannot be merged.
        """
        if self._merge_topic is not None:
            return self._from_topic(self._merge_topic)
        if is_new := self._from_states():
            self.model = self._merged()
        return is_new

    def _merged(self) -> Any:
        try:
            return merge([self._models[partition] for partition in sorted(self._models)])
        except (TypeError, ValueError):
            raise
        except Exception as error:  # of steps of other libraries
            raise ValueError(f"the models cannot be merged: {type(error).__name__}: {error}") from error

    def _from_topic(self, merge_topic: MergeTopic) -> bool:
        before, new = dict(self._models), set()
        for partition, (offset, document) in merge_topic.latest().items():
            if self._marks.get(partition) == offset:
                continue
            self._marks[partition] = offset
            try:
                self._models[partition] = self._loaded(document)
            except Exception as error:  # whatever was written there: it is no model
                self._refuse(partition, error)
            else:
                new.add(partition)
        if not new:
            return False
        try:
            if len(self._models) == 1:  # a merge with others is what shows whether it is sound
                merge(2 * list(self._models.values()))
            self.model = self._merged()
        except Exception:
            if not self._take_back(new, before):
                raise
            if self._models == before:
                return False
            self.model = self._merged()
        return True

    def _loaded(self, document: bytes) -> Any:
        """Return the model of a document. Raises CheckpointError when it is none, or of another kind."""
        model = codec.loads(document)
        if not hasattr(type(model), "learn_one"):
            raise CheckpointError(f"expected a model, found {type(model).__name__}")
        kind = kind_of(model)
        if self._kind is not None and (found := difference(kind, self._kind, "model", own=True)) is not None:
            raise CheckpointError(f"the model is of another kind: {found}")
        if self._kind is not None and list(kind) != list(self._kind):
            raise CheckpointError("the model is of another kind: its steps are in another order")
        self._kind = kind if self._kind is None else self._kind
        return model

    def _take_back(self, new: set[str], before: dict[str, Any]) -> bool:
        """Refuse models that cannot even be merged with themselves; return whether there were any."""
        found = False
        for partition in sorted(new):
            model = self._models[partition]
            try:
                merge([model, model])
            except Exception as error:
                found = True
                self._refuse(partition, error)
                if partition in before:
                    self._models[partition] = before[partition]
                else:
                    del self._models[partition]
        return found

    def _refuse(self, partition: str, error: Exception) -> None:
        self._n_refused += 1
        self._refusal = f"{partition}@{self._marks[partition]}: {error}"

    def _from_states(self) -> bool:
        assert self._states is not None
        is_new = False
        for partition, place in self._source.committed().items():
            note = place.metadata
            if note is None or note == self._marks.get(partition) or PartitionStates.is_beginning(note):
                continue
            try:
                state = self._states.read(partition, note)
            except CheckpointError:
                if self._states.is_there(partition, note):
                    raise
                continue  # superseded meanwhile: the next refresh finds its successor
            if not isinstance(state, dict) or "model" not in state:
                raise CheckpointError(f"{partition}: this is no state of a group's worker")
            self._models[partition] = state["model"]
            self._marks[partition] = note
            is_new = True
        return is_new
