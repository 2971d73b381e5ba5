"""The command line: one small file per command, imported when it is called."""
