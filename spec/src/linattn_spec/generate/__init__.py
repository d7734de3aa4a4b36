"""The generator of the fixtures: scenarios, the cases they give in each dtype, and their files.

Nothing in the fixtures folder is edited by hand, README.md apart.
"""
