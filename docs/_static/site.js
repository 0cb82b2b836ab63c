// Excerpts of pages among the results of a search are fetched, which browsers refuse for files.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";
