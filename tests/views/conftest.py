"""GNU ld and objdump as the judges of what views of machine code show."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "linker"))
sys.path.insert(0, str(Path(__file__).parent))
