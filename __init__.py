"""draftgate: may this speculative-decoding draft go in front of this model?"""

__version__ = "0.1.0"
