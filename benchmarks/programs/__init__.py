"""Programs that each run one reader, in a process and an environment of its own.

A program reads requests from standard input, one JSON object per line. It answers each with one JSON object on a line
that begins with `ANSWER `; the runner ignores all other output. It ends when its standard input ends.
"""
