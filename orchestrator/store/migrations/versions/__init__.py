"""One file per step, ``rNNNN_what.py``; its ``revision`` is what the database says its layout is."""
