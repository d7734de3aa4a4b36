"""One module for each peer: its functions, translated to and from the operators' arguments.

Each has FUNCTIONS, what of it is compared; DISTRIBUTIONS, whose versions a report states; and
PLANTED, the faults that comparing with it must find when they are planted in the definition.
"""
