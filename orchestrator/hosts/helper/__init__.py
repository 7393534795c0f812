"""The one file that runs on the host (``tune_helper.py``): standard library only."""
