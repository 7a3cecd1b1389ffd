"""Relocatable ELF files as records.  Start from `read_object`."""

from jitkernel.elf.reader import ElfObject, Section, read_object

__all__ = ["ElfObject", "Section", "read_object"]
