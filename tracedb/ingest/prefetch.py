"""Run a generator ahead in another thread, by a few items."""

from __future__ import annotations

from contextlib import contextmanager
from queue import Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")
_END = object()


@contextmanager
def prefetch(items: Iterable[T], most: int = 2) -> Iterator[Iterator[T]]:
    """Yield an iterator over items that another thread produces ahead.

    Errors of that thread are raised here. Leaving the block early ends the thread.
    """
    made: Queue[object] = Queue(most)
    is_left = Event()
    thread = Thread(target=_make, args=(items, made, is_left), daemon=True)
    thread.start()
    try:
        yield cast("Iterator[T]", _taken(made))
    finally:
        is_left.set()
        thread.join()


def _make(items: Iterable[object], made: Queue[object], is_left: Event) -> None:
    try:
        for item in items:
            if not _put(made, item, is_left):
                return
        _put(made, _END, is_left)
    except BaseException as error:  # noqa: BLE001 (it is raised where items are taken)
        _put(made, _Failure(error), is_left)


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _put(made: Queue[object], item: object, is_left: Event) -> bool:
    while not is_left.is_set():
        try:
            made.put(item, timeout=0.1)
        except Full:
            continue
        return True
    return False


def _taken(made: Queue[object]) -> Iterator[object]:
    while (item := made.get()) is not _END:
        if isinstance(item, _Failure):
            raise item.error
        yield item
