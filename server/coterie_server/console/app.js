// The console: a list of groups, and a page for each.
