"""Exercises and their grading: hidden inputs against a reference, and rules about the code.

Start from `check` (a student's side) and `make_exercise` (an author's).
"""

from jitkernel.grading.check import Report, check
from jitkernel.grading.exercise import Exercise, exercises, find_exercise, make_exercise

__all__ = ["Exercise", "Report", "check", "exercises", "find_exercise", "make_exercise"]
