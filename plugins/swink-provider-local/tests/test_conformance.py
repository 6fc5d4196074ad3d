"""The conformance kit on this provider, at the address of an engine that runs already."""

from swink_testing.conformance import ProviderConformance


class TestLocal(ProviderConformance):
    provider = "local"
    heavy = ("xllamacpp", "multiprocessing")
