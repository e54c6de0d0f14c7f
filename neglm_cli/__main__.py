"""`python -m neglm_cli` is `neglm`."""

from neglm_cli.cli.main import main

if __name__ == "__main__":
    main()
