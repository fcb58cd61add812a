"""`python -m k3scope.model.training` trains one of the small models."""

from k3scope.model.training.train import main

if __name__ == "__main__":  # not in the processes that training starts
    main()
