"""What can be wrong with a stream, beyond the provider's own errors.

SessionSchedError
└── StreamFault
    ├── StreamSilent       nothing came for `silence_timeout` seconds
    ├── StreamCut          it was over before its Finish
    ├── ProviderCanceled   it raised a CancelledError, though nobody canceled
    └── StreamBroken       its parts make no sense: a mistake in whatever makes them

All but the last are faults of transport: the attempt is made again, whatever `Retry.on` says.
"""

from __future__ import annotations

from sessionsched.errors import SessionSchedError

__all__ = ["ProviderCanceled", "StreamBroken", "StreamCut", "StreamFault", "StreamSilent"]


class StreamFault(SessionSchedError):
    """A stream went wrong; the provider has not said how."""


class StreamSilent(StreamFault, TimeoutError):
    """Nothing has come for too long."""


class StreamCut(StreamFault, ConnectionError):
    """The stream was over before its Finish."""


class ProviderCanceled(StreamFault, ConnectionError):
    """The provider raised a cancellation, and nobody had canceled anything."""


class StreamBroken(StreamFault, ValueError):
    """A part makes no sense where it came."""
