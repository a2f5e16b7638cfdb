"""Keep the packet filter settings of the host's own bridges unchanged (docs/adr/0002).

Docker's daemon loads the module `br_netfilter`. Once it is loaded, the setting exists and is on in every network
namespace, including the host's: all bridges of the host would pass iptables from then on. Kernels before 5.3 have one
setting for all namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

from tare.system.node.kernel_files import read_text

SETTINGS: Final = Path("/proc/sys/net/bridge")
NAMES: Final = tuple(f"bridge-nf-call-{name}" for name in ("iptables", "ip6tables", "arptables"))
OFF: Final = "0"
LOOK_S: Final = 0.05


@contextmanager
def as_they_were(settings: Path = SETTINGS) -> Iterator[Callable[[], None]]:
    """Yield a function that restores the settings of this network namespace; they are also restored at the end.

    If the module is not loaded yet, a thread waits for it to appear, so that the host's bridges pass nothing meanwhile.
    """
    before = read(settings)

    def give_back() -> None:
        write(settings, wanted=before)

    with _watched(settings, give_back):
        try:
            yield give_back
        finally:
            give_back()


def read(settings: Path = SETTINGS) -> dict[str, str]:
    """Return the settings; without the module, bridged frames do not pass the packet filter."""
    return {name: read_text(f"{settings}/{name}").strip() or OFF for name in NAMES}


def write(settings: Path = SETTINGS, *, wanted: Mapping[str, str]) -> None:
    """Write the settings that differ."""
    for name, value in wanted.items():
        if (found := read_text(f"{settings}/{name}").strip()) and found != value:
            with suppress(OSError):
                (settings / name).write_text(value)


@contextmanager
def _watched(settings: Path, give_back: Callable[[], None]) -> Iterator[None]:
    """Restore the settings as soon as the module is loaded, if it is not loaded yet."""
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
