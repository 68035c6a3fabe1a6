"""The files of the console, a page for browsers, which `coterie_server.http.console` serves."""
