"""`python -m tests.faults.powercut FOLDER -m module …`"""

import sys
from pathlib import Path

from tests.faults.powercut.program import run

if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
