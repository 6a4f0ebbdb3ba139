"""Executable domains: the true world that tool calls change, the known world that results reveal, checks on both."""

from .checks import Finding, check_known, check_true
from .environment import Environment, StepResult
from .episode import expected_hash, play
from .image import Image, build
from .known import Cell, KnownWorld, known_world
from .replay import Replay, replay
from .tasks import Task, tasks

__all__ = [
    "Cell",
    "Environment",
    "Finding",
    "Image",
    "KnownWorld",
    "Replay",
    "StepResult",
    "Task",
    "build",
    "check_known",
    "check_true",
    "expected_hash",
    "known_world",
    "play",
    "replay",
    "tasks",
]
