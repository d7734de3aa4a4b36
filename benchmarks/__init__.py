"""Speed and memory of the packages against each other and against the field, as ratios in one run.

    python -m benchmarks [--suite NAME] [--contender GLOB] [--shape B,T,H,D] [--out FOLDER]
    python -m benchmarks --reduced

Every family of contenders has a process of its own, because the thread pools of several libraries
disturb each other. One contender computes at a time; all of them take turns, round by round.
"""
