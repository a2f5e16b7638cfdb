"""Keep what the host's own bridges do with the packet filter as it was (docs/adr/0002).

Docker's daemon loads the module `br_netfilter`. Once it is loaded, the setting is there and on in every network
namespace, the host's among them: all bridges of the host would pass iptables from then on. Kernels before 5.3 have one
setting for all namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

SETTINGS: Final = Path("/proc/sys/net/bridge")
NAMES: Final = tuple(f"bridge-nf-call-{name}" for name in ("iptables", "ip6tables", "arptables"))
OFF: Final = "0"
LOOK_S: Final = 0.05


@contextmanager
def as_they_were(settings: Path = SETTINGS) -> Iterator[Callable[[], None]]:
    """Yield what gives the settings of this network namespace back; it is done again at the end.

    While the module is not loaded its coming is watched for, so that the host's bridges pass nothing meanwhile.
    """
    before = read(settings)

    def give_back() -> None:
        write(settings, before)

    with _watched(settings, give_back):
        try:
            yield give_back
        finally:
            give_back()


def read(settings: Path = SETTINGS) -> dict[str, str]:
    """Return the settings; without the module bridged frames do not pass the packet filter."""
    return {name: _text(settings / name) or OFF for name in NAMES}


def write(settings: Path, wanted: Mapping[str, str]) -> None:
    """Set what differs."""
    for name, value in wanted.items():
        if (found := _text(settings / name)) and found != value:
            with suppress(OSError):
                (settings / name).write_text(value)


@contextmanager
def _watched(settings: Path, give_back: Callable[[], None]) -> Iterator[None]:
    """Give the settings back as soon as the module is loaded, where it is not loaded yet."""
    end = Event()

    def watch() -> None:
        while not end.wait(LOOK_S):
            if settings.exists():
                give_back()
                return

    thread = Thread(target=watch, daemon=True)
    if not settings.exists():
        thread.start()
    try:
        yield
    finally:
        end.set()
        if thread.ident is not None:
            thread.join()


def _text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text().strip()
    return ""
