"""Checks exported trajectories with the models of the format's own package.

usage: trajectories.py PACKAGE-DIRECTORY FILE...
"""

import sys
import types
from pathlib import Path

# Only the models of the format are needed, not the harness around them.
for name in ("harbor", "harbor.models"):
    module = types.ModuleType(name)
    module.__path__ = [str(Path(sys.argv[1]) / name.replace(".", "/"))]
    sys.modules[name] = module

from harbor.models.trajectories import Trajectory  # noqa: E402

for file in sys.argv[2:]:
    Trajectory.model_validate_json(Path(file).read_text(encoding="utf-8"))
print(f"official-clients: {len(sys.argv) - 2} trajectories: ok")
