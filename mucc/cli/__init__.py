"""The command line. `main` dispatches; every command is one module, imported when it is used."""
