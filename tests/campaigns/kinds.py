"""All kinds of campaigns."""

from __future__ import annotations

from campaigns.corruption import CorruptionCampaign
from campaigns.errors import ErrorCampaign
from campaigns.framework import Campaign
from campaigns.hostile import HostileCampaign
from campaigns.kills import KillCampaign
from campaigns.readers import ReaderCampaign

_ALL: tuple[type[Campaign], ...] = (
    KillCampaign,
    ErrorCampaign,
    CorruptionCampaign,
    HostileCampaign,
    ReaderCampaign,
)
KINDS: dict[str, type[Campaign]] = {kind.name: kind for kind in _ALL}
