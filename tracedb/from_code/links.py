"""The links between ranks: NVLink within a node, a network between nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tracedb.errors import EstimateError
from tracedb.from_code.job import Job
from tracedb.from_code.pricing import Device

if TYPE_CHECKING:
    import duckdb

_GIGA = 1e9
_ROW = """
SELECT nvlink_bytes_per_second, network_bytes_per_second, network_latency_ns
FROM prediction.hardware
WHERE hardware = ?
"""
_WITH_NETWORK = """
INSERT INTO reference.hardware BY NAME
SELECT
    * EXCLUDE (is_fallback, is_generic, source, vendor, network_bytes_per_second),
    ?::DOUBLE AS network_bytes_per_second
FROM prediction.hardware
WHERE hardware = ?
"""


@dataclass(frozen=True)
class Links:
    """Bandwidths of a GPU within and between nodes, and the network's latency."""

    per_node: int
    node_bytes_per_second: float
    network_bytes_per_second: float
    network_latency_ns: int

    @classmethod
    def of(
        cls,
        connection: duckdb.DuckDBPyConnection,
        device: Device,
        network: float | None,
    ) -> Links:
        """The links in a GPU's row of `prediction.hardware`.

        `network` [GB/s], the bandwidth that messages reach, replaces the row's value in
        the database, which must be a temporary one.
        """
        if network is not None:
            if not 0 < network < float("inf"):
                raise EstimateError(f"network is {network}; it must be above 0")
            given = [network * _GIGA, device.hardware]
            connection.execute(_WITH_NETWORK, given)
        found = connection.execute(_ROW, [device.hardware]).fetchall()
        return cls(device.per_node, *found[0])


def refuse_alone(
    ranks: int | None, ranks_per_node: int | None, network: float | None
) -> None:
    """Raise `EstimateError` for links of code whose number of ranks is not given."""
    if ranks is None and (ranks_per_node is not None or network is not None):
        name = "ranks_per_node" if network is None else "network"
        raise EstimateError(f"{name} is of several ranks; give their number (--ranks)")


def connected(
    connection: duckdb.DuckDBPyConnection,
    gpu: str,
    ranks: int | None,
    ranks_per_node: int | None,
    network: float | None,
) -> tuple[Device, Links]:
    """A GPU with the requested number per node, and its links."""
    found = Device.of(connection, gpu)
    job = Job.of(ranks, ranks_per_node, found.per_node)
    device = replace(found, per_node=job.per_node)
    return device, Links.of(connection, device, network)
