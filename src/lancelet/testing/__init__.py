"""A kit for testing code that reads or writes tables.

``assert_identical`` compares Arrow data bit for bit where values count and not
at all where they do not; ``random_array`` draws data of any type in the shapes
that encoders care about; ``lancelet.testing.strategies`` holds the hypothesis
strategies (it needs hypothesis, which lancelet itself does not).
"""

from lancelet.testing.arrays import PATTERNS, NullShare, Pattern, random_array
from lancelet.testing.identical import assert_identical, difference

__all__ = ["PATTERNS", "NullShare", "Pattern", "assert_identical", "difference", "random_array"]
