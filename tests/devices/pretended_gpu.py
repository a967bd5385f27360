"""A pretended GPU: tensors that say they are on it, and hold numbers on the CPU.

PyTorch itself sees tensors on ``meta`` that Python computes with, because no other device is in
every build of it and asks for no streams; whoever asks one for its device is told ``cuda:0``. An
operation is checked as CUDA checks it, done on the CPU, and wrapped again. So what takes a tensor
of the CPU for one of the GPU fails here, too, where there is no GPU, with numbers that are those
of the CPU.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

CUDA, META, CPU = torch.device("cuda", 0), torch.device("meta"), torch.device("cpu")
aten = torch.ops.aten

_MAY_MIX = {aten.copy_, aten._foreach_copy_, aten.index, aten.index_put, aten.index_put_}
_MAY_MIX |= {aten._index_put_impl_, aten.set_}
_NO_SCALARS = {aten.cat, aten.stack}
_random = torch.Generator()  # of the device, not the one of the CPU


class PretendedTensor(torch.Tensor):
    """A tensor that says it is on ``cuda:0``; ``held`` has its numbers."""

    held: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> PretendedTensor:
        with torch.inference_mode(held.is_inference()):  # a view of what is none is none
            made = torch.Tensor._make_wrapper_subclass(
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=META,
            )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _compute(function, args, kwargs or {})

    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_meta = is_cpu = property(lambda self: False)
    data = property(torch.Tensor.detach, lambda self, new: self._hold(new))

    def _hold(self, new: torch.Tensor) -> None:
        assert isinstance(new, PretendedTensor), "the data of a tensor stay on their device"
        torch.Tensor.data.__set__(self, new)
        self.held = new.held

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def numpy(self, *, force: bool = False):
        if not force:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        return self.detach().cpu().numpy()

    def tolist(self) -> list:
        return self.detach().cpu().tolist()

    def __deepcopy__(self, memo: dict) -> PretendedTensor:
        if id(self) not in memo:
            assert self.is_leaf, "only leaves can be copied"
            copy = self.detach().clone().requires_grad_(self.requires_grad)
            for name in set(self.__dict__) - {"held"}:
                setattr(copy, name, getattr(self, name))
            memo[id(self)] = copy
        return memo[id(self)]


def _tensors(args, kwargs):
    values = [*args, *kwargs.values()]
    values += [part for value in values if isinstance(value, list | tuple) for part in value]
    return [value for value in values if isinstance(value, torch.Tensor)]


def _map(change, value):
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(_map(change, part) for part in value)
    if isinstance(value, dict):
        return {key: _map(change, part) for key, part in value.items()}
    return value


def _compute(function, args, kwargs):
    """What ``function`` gives on the device, or on the CPU if nothing in it is on the device."""
    given = _tensors(args, kwargs)
    there = [tensor for tensor in given if isinstance(tensor, PretendedTensor)]
    if not there and not any(map(_names_device, (*args, *kwargs.values()))):
        return function(*args, **kwargs)
    if _is_composite(function):  # which autograd has not taken apart where it is off
        with _Operations():
            return function.decompose(*args, **kwargs)
    device = kwargs.get("device")
    onto = bool(there) if device is None else _names_device(device)
    packet = function.overloadpacket
    if function.namespace == "prims":  # forward mode asks ``meta`` for shapes alone
        return function(*_map(_without_numbers, args), **_map(_without_numbers, kwargs))
    if packet is aten._fused_sdp_choice:
        return 0  # as operations of their own
    if device is None:
        _check_devices(packet, args, given, there)
    else:
        kwargs = {**kwargs, "device": CPU}
    if packet is aten._efficientzerotensor:  # which has no numbers to hold
        function = aten.zeros.default
    if onto and torch.Tag.nondeterministic_seeded in function.tags:
        kwargs = _with_own_randomness(function, kwargs)
    wrapped = {id(tensor.held): tensor for tensor in there}
    given_args, given_kwargs = args, kwargs
    args, kwargs = _map(lambda t: getattr(t, "held", t), (args, kwargs))
    found = function(*args, **kwargs)

    def wrap(tensor):
        if not onto or isinstance(tensor, PretendedTensor):
            return tensor
        before = wrapped.get(id(tensor))
        if before is None:
            return PretendedTensor(tensor)
        if before.shape != tensor.shape or before.stride() != tensor.stride():
            with torch._C._DisableTorchDispatch():  # sizes and strides of ``meta``
                function(*given_args, **given_kwargs)
            assert before.shape == tensor.shape and before.stride() == tensor.stride()
        return before

    if function._schema.is_mutable and not onto:
        return args[0] if isinstance(found, torch.Tensor) else found
    return _map(wrap, found)


def _names_device(value):
    return isinstance(value, torch.device) and value.type in ("cuda", "meta")


@functools.cache
def _is_composite(function):
    name, key = function.name(), "CompositeImplicitAutograd"
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def _without_numbers(tensor):
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)


def _check_devices(packet, args, given, there):
    if packet is aten.linalg_lstsq and args[3:] not in ((), (None,), ("gels",)):
        raise RuntimeError("torch.linalg.lstsq: on CUDA, driver must be gels")
    others = [tensor for tensor in given if not isinstance(tensor, PretendedTensor)]
    if packet not in _NO_SCALARS:
        others = [tensor for tensor in others if tensor.dim()]
    if packet in _MAY_MIX and (args[0] is given[0]) and "index" in str(packet):
        if isinstance(args[0], PretendedTensor):
            others = [t for t in others if t.dtype not in (torch.long, torch.bool, torch.int32)]
        else:
            others = others or given[:1]
    elif packet in _MAY_MIX:
        others = []
    if others and there:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"cuda:0 and cpu! (in {packet}, with shapes {[tuple(t.shape) for t in given]})"
        )


def _with_own_randomness(function, kwargs):
    if kwargs.get("generator") is not None:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    if any(argument.name == "generator" for argument in function._schema.arguments):
        return {**kwargs, "generator": _random}
    return kwargs


def _renamed(value):
    """``meta`` for what a caller calls the GPU."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return META
    return META if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


_ANSWERS = {
    torch.Tensor.device.__get__: CUDA,
    torch.Tensor.is_cuda.__get__: True,
    torch.Tensor.is_meta.__get__: False,
}
_INDEXING = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
_FROM_DATA = (torch.tensor, torch.as_tensor, torch.asarray)


def _with_numbers(index):
    """An index with its lists as tensors, which PyTorch would make on ``meta``, without numbers."""
    if isinstance(index, tuple):
        return tuple(map(_with_numbers, index))
    return torch.tensor(list(index)) if isinstance(index, list | range) else index


class _Names(TorchFunctionMode):
    """``cuda`` wherever Python names the device, of tensors within transforms, too."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in _ANSWERS:
            there = torch.Tensor.device.__get__(args[0]).type in ("meta", "cuda")
            return _ANSWERS[function] if there else function(*args)
        if function is torch.device:
            return function(*args, **kwargs)
        if function in _INDEXING and _on(args[0]):
            args = args[0], _with_numbers(args[1]), *args[2:]
        if function is torch.Tensor.new_tensor and _on(args[0]):
            kwargs = {"dtype": args[0].dtype, "device": META, **kwargs}
            args, function = args[1:], torch.tensor
        if function in _FROM_DATA:
            return self._from_data(function, args[0], *args[1:], **kwargs)
        args = tuple(_renamed(value) for value in args)
        kwargs = {key: _renamed(value) for key, value in kwargs.items()}
        return function(*args, **kwargs)

    def _from_data(self, function, data, dtype=None, device=None, requires_grad=False, **rest):
        """By a copy from the CPU, or from tensors: on ``meta`` PyTorch would copy no numbers."""
        if isinstance(data, torch.Tensor) and (_on(data) or _renamed(device) is META):
            made = data.to(META if device is None else _renamed(device), dtype)
            made = made.detach().clone() if function is torch.tensor else made
        else:
            made = function(data, dtype=dtype, **rest)
            made = made if device is None else made.to(_renamed(device))
        return made.detach().requires_grad_() if requires_grad else made


def _on(tensor):
    return torch.Tensor.device.__get__(tensor).type in ("meta", "cuda")


class _Operations(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False  # which takes seconds to import, and nothing here is compiled by it

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _compute(function, args, kwargs or {})


@contextlib.contextmanager
def _modes():
    with _Operations(), _Names():
        yield


@contextlib.contextmanager
def pretended_gpu():
    """Everything within has one GPU, ``cuda``, in other threads that it starts, too."""
    run = threading.Thread.run

    def run_there(thread):
        with _modes():
            run(thread)

    cuda = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "manual_seed_all": lambda seed: _random.manual_seed(seed),
    }
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # as on CUDA they stay who they are
    _random.manual_seed(0)
    try:
        with (
            mock.patch.multiple(torch.cuda, **cuda),
            mock.patch.object(threading.Thread, "run", run_there),
            _modes(),
        ):
            yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swaps)


@contextlib.contextmanager
def on_the_cpu():
    """Within, nothing stands between PyTorch and the CPU: it is as fast as elsewhere."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield
