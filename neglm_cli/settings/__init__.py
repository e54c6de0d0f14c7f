"""The settings of trainings, each declared once: type, default, limits, presets, help, whether --resume may change it.

Options and their help, man pages, usage checks and the validation of stored arguments follow from the declarations.
"""
