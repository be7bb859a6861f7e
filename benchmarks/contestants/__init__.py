"""Programs that each run one reader, in a process and an environment of its own.

A contestant reads orders from standard input, one JSON object per line, and answers each with one JSON object on a line
that begins with `ANSWER `: whatever else its libraries print is not taken for one. It ends with its standard input.
"""
