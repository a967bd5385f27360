"""What a model file says does not get into the C++ that is compiled for it."""

import re

import torch

import vpintegrator as vp
from vpintegrator.compiled.source import write_adjoint_source, write_source
from vpintegrator.compiled.tracing import trace

HOSTILE = 'x"); system("touch escaped"); //'


def test_nothing_from_a_file_is_in_a_source(tmp_path):
    torch.manual_seed(0)
    model = vp.models.VolumePreservingTransformer(dim=3, depth=1, width=2)
    system = vp.System(vp.load_system("rigid-body").text, HOSTILE)
    model.origin = vp.models.Origin(system, dataset=HOSTILE, fingerprint=HOSTILE)
    model.record = vp.models.Record(attention=HOSTILE, search=(HOSTILE,))
    path = tmp_path / "model.safetensors"
    vp.save(model, path)
    sources = []
    for loaded in (model, vp.load(path)):
        with torch.no_grad():
            for parameter in loaded.parameters():
                parameter.fill_(1234.5678)
        traced, sizes = trace(loaded), (loaded.window, loaded.prediction_window, loaded.dim)
        backward = write_adjoint_source(traced, sizes, "double", [*range(10)], False)
        sources.append([*write_source(traced, sizes, "double", 0).units, *backward.units])
    # the same text whatever the file says, and neither its words nor its weights in it
    assert sources[0] == sources[1]
    text = "\n".join(sources[0])
    assert not re.search(r"system|escaped|touch|1234\.5", text)
