"""The files of the console, a page that browsers show; `coterie_server.http.console` serves them."""
