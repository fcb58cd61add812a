"""The pictures of the Lab and their files, without a page: the command line uses them as well."""
