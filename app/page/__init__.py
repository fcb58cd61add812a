"""The places of the page, one file each; a part is built once per visitor and then updated."""
