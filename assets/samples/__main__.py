"""Draw the sample pictures."""

from assets.samples import main

main()
