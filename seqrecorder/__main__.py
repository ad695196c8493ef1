"""`python -m seqrecorder` is the command `seqrecorder`."""

import sys

from seqrecorder.cli.main import main

sys.exit(main())
