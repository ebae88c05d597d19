"""Where tasks and their true answers come from, and how an answer is graded.

`registry.load` gives a `DataSet` by name: recorded rows (BBH, MMLU-Pro, GSM8K, MATH) read from a folder, or
`families`, which are generated from a seed and need no file. `graders.grade` judges an answer against a row.
"""
