"""A line about each architecture of this package, by its name."""

DESCRIPTIONS = {
    "vpt": "volume-preserving transformer: attention by rotations, then couplings",
    "vpff": "volume-preserving feed-forward network: couplings or triangular layers, one step",
    "vpmt": "volume-preserving multihead transformer: softmax attention inside couplings",
    "spff": "symplectic feed-forward network: gradient couplings, SympNets, HenonNets, one step",
    "sgf": "symplectic map of a generating function: one step, trained by one linear solve",
    "vpgf": "volume-preserving map of generating functions: one step, by one linear solve",
    "linear": "linear map: one step, by least squares",
    "polynomial": "polynomial map: one step by ridge regression, no structure",
    "split": "learned splitting: exact flows of the parts of known equations, few coefficients",
    "classical": "explicit classical method with substeps for known equations, nothing to train",
    "spt": "symplectic transformer: symplectic attention over a window, then gradient couplings",
    "transformer": "standard transformer: multihead attention and residual layers, no structure",
    "resnet": "residual network: the plain baseline, no structure",
}
