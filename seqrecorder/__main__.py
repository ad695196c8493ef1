"""`python -m seqrecorder` is the command `seqrecorder`."""

import sys

from seqrecorder.cli import main

sys.exit(main())
