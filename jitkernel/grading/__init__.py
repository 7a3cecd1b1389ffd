"""Exercises and their grading: hidden inputs against a reference, and rules about the code.

Start from `check` (a student's side) and `make_exercise` (an author's); `predict` and `answer`
compare what a reader expects with what comes out.
"""

from jitkernel.grading.check import Report, check
from jitkernel.grading.exercise import Exercise, exercises, find_exercise, make_exercise
from jitkernel.grading.predictions import answer, predict

__all__ = [
    "Exercise", "Report", "answer", "check", "exercises", "find_exercise", "make_exercise",
    "predict",
]  # fmt: skip
