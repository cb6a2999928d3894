# SPDX-License-Identifier: Apache-2.0
"""Calls go to the region that an ARN names, whatever region the connection has for other services."""

from __future__ import annotations

from shardbatch.errors import ConfigurationError


def region_for(address: str, region_name: str | None) -> str | None:
    """The region of an ARN; for a plain name the author's region, ``None`` for the connection's."""
    parts = address.split(":")
    return (parts[3] if parts[0] == "arn" and len(parts) > 5 else "") or region_name


def require_one_region(what: str, address: str, region_name: str | None) -> None:
    """Check that a region given beside an ARN is the ARN's.

    :raises ConfigurationError: if it is another one.
    """
    found = region_for(address, region_name)
    if region_name and found != region_name and "{{" not in address + region_name:
        raise ConfigurationError(
            f"{what} has the ARN {address}, which is in {found}, and region_name={region_name!r}.",
            remedy="Leave region_name out; the ARN's region is used.",
        )
