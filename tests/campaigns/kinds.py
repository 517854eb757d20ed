"""All kinds of campaigns."""

from __future__ import annotations

from campaigns.corruption import CorruptionCampaign
from campaigns.errors import ErrorCampaign
from campaigns.framework import Campaign
from campaigns.hostile import HostileCampaign
from campaigns.kills import KillCampaign
from campaigns.load import LoadCampaign
from campaigns.readers import ReaderCampaign
from campaigns.soak import ServingSoak, TrainingSoak
from campaigns.threads import ThreadCampaign

_ALL: tuple[type[Campaign], ...] = (
    KillCampaign,
    ErrorCampaign,
    CorruptionCampaign,
    HostileCampaign,
    ReaderCampaign,
    LoadCampaign,
    TrainingSoak,
    ServingSoak,
    ThreadCampaign,
)
KINDS: dict[str, type[Campaign]] = {kind.name: kind for kind in _ALL}
