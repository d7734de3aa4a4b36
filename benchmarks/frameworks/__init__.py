"""How each framework runs a function: forward, forward and backward, and token by token.

Every module has, for a function from inputs by name to results by name,

    forward(function, inputs, dtype)                  a call without arguments: the results
    gradient(function, inputs, cotangents, dtype)     ... and "gradient.<input>" of every input
    step(function, inputs, dtype)                     ... of one call per token, from a state or 0
    arrays(results)                                   NumPy arrays by name
    use(threads)                                      before anything is computed

A call returns when its results are there, and not before. Some take how to compile, too.
"""
