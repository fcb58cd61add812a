"""Draw the sample pictures."""

from k3scope.assets.samples import main

main()
