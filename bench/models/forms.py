"""The models: architectures and sizes of published ones, a few layers each, with random weights.

A few equal layers have the time of many, divided by their number, and compile in the same time. Vocabularies
are cut to 1024 entries, so that embeddings and heads do not outweigh the layers.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.models import networks

VOCABULARY = 1024
LAST = "channels_last"
"""PyTorch's memory format of images whose channels are adjacent."""


@dataclass(frozen=True)
class Case:
    """A module in f32, and the arguments of a call."""

    module: Any
    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Model:
    """A model at one size. `make(torch)` gives a case in f32; `trains` runs forward and backward.

    It runs in `dtype`, where products and convolutions of float32 may be in TF32. `other` is a memory format
    of PyTorch that its module and images do not have, in which Inductor compiles it as well.
    """

    name: str
    make: Callable[[Any], Case]
    trains: bool = False
    dtype: str = "bfloat16"
    other: str = ""

    @property
    def key(self) -> str:
        return self.name + ("-train" if self.trains else "")


def _transformers() -> Any:
    return importlib.import_module("transformers")


def _config(name: str, **sizes: Any) -> Any:
    config = getattr(_transformers(), name)(**sizes)
    config._attn_implementation = "sdpa"
    return config


def _tokens(torch: Any, batch: int, length: int) -> Any:
    return torch.randint(VOCABULARY, (batch, length))


def _llama_config(layers: int = 2) -> Any:
    return _config(
        "LlamaConfig",
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=VOCABULARY,
        rope_theta=500000.0,
    )


def llama_prefill(batch: int, length: int) -> Callable[[Any], Case]:
    """Two layers of an 8B Llama without a cache, in which all positions are computed."""

    def make(torch: Any) -> Case:
        module = _transformers().LlamaModel(_llama_config())
        return Case(module, (), {"input_ids": _tokens(torch, batch, length), "use_cache": False})

    return make


def llama_decode(batch: int, context: int = 1024) -> Callable[[Any], Case]:
    """Two layers of an 8B Llama that compute one token of each sequence over a static cache of `context`."""

    def make(torch: Any) -> Case:
        config = _llama_config()
        module = networks.Decoder(_transformers().LlamaModel(config), config, context)
        return Case(module, (_tokens(torch, batch, 1), torch.tensor([context - 1])))

    return make


def mixtral(torch: Any) -> Case:
    config = _config(
        "MixtralConfig",
        hidden_size=2048,
        intermediate_size=7168,
        num_hidden_layers=1,
        num_attention_heads=16,
        num_key_value_heads=8,
        num_local_experts=8,
        vocab_size=VOCABULARY,
    )
    module = _transformers().MixtralModel(config)
    return Case(module, (), {"input_ids": _tokens(torch, 4, 512), "use_cache": False})


def gpt2(torch: Any) -> Case:
    config = _config("GPT2Config", n_layer=2, vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0)
    module = _transformers().GPT2Model(config)
    return Case(module, (), {"input_ids": _tokens(torch, 8, 1024), "use_cache": False})


def bert_large(torch: Any) -> Case:
    config = _config(
        "BertConfig",
        hidden_size=1024,
        num_hidden_layers=2,
        num_attention_heads=16,
        intermediate_size=4096,
        vocab_size=VOCABULARY,
    )
    module = _transformers().BertModel(config, add_pooling_layer=False)
    return Case(module, (), {"input_ids": _tokens(torch, 16, 512)})


def t5_large(torch: Any) -> Case:
    config = _config(
        "T5Config",
        d_model=1024,
        d_ff=4096,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=16,
        vocab_size=VOCABULARY,
        use_cache=False,
    )
    module = _transformers().T5Model(config)
    tokens = _tokens(torch, 8, 512)
    return Case(module, (), {"input_ids": tokens, "decoder_input_ids": tokens[:, :128], "use_cache": False})


def vit_large(torch: Any) -> Case:
    config = _config(
        "ViTConfig", hidden_size=1024, num_hidden_layers=2, num_attention_heads=16, intermediate_size=4096
    )
    module = _transformers().ViTModel(config, add_pooling_layer=False)
    return Case(module, (), {"pixel_values": torch.randn(32, 3, 224, 224)})


def whisper_encoder(torch: Any) -> Case:
    config = _config(
        "WhisperConfig",
        d_model=1280,
        encoder_layers=2,
        encoder_attention_heads=20,
        encoder_ffn_dim=5120,
        decoder_attention_heads=20,
        decoder_layers=1,
        num_mel_bins=128,
    )
    module = _transformers().WhisperModel(config).encoder
    return Case(module, (torch.randn(4, 128, 3000),))


def mamba2(torch: Any) -> Case:
    config = _transformers().Mamba2Config(
        hidden_size=1024,
        num_hidden_layers=2,
        num_heads=32,
        head_dim=64,
        expand=2,
        n_groups=1,
        vocab_size=VOCABULARY,
        use_cache=False,
    )
    module = _transformers().Mamba2Model(config)
    return Case(module, (), {"input_ids": _tokens(torch, 4, 1024), "use_cache": False})


def dlrm(torch: Any) -> Case:
    module = networks.Recommender(torch)
    return Case(module, (torch.randn(8192, 13), torch.randint(networks.ROWS, (8192, networks.TABLES))))


def _vision(name: str) -> Any:
    return getattr(importlib.import_module("torchvision").models, name)()


def _images(torch: Any, batch: int, size: int) -> Any:
    return torch.randn(batch, 3, size, size)


def resnet50(torch: Any) -> Case:
    return laid_out(torch, Case(_vision("resnet50"), (_images(torch, 64, 224),)), LAST)


def convnext_base(torch: Any) -> Case:
    """Return ConvNeXt-B with three blocks of the stage that has 27."""
    module = _vision("convnext_base")
    module.features[5] = module.features[5][:3]
    return laid_out(torch, Case(module, (_images(torch, 32, 224),)), LAST)


def unet(torch: Any) -> Case:
    return laid_out(torch, Case(networks.unet(torch), (_images(torch, 8, 256),)), LAST)


def laid_out(torch: Any, case: Case, layout: str) -> Case:
    """Return a case with its weights and images of four axes in a memory format of PyTorch."""
    memory = getattr(torch, layout)

    def moved(value: Any) -> Any:
        is_image = isinstance(value, torch.Tensor) and value.ndim == 4
        return value.contiguous(memory_format=memory) if is_image else value

    module = case.module.to(memory_format=memory)
    return Case(module, tuple(map(moved, case.args)), {k: moved(v) for k, v in case.keywords.items()})


def _networks(batch: int = 32) -> Iterator[Model]:
    """Yield three networks of images, whole, in bf16 with channels last and in TF32 with channels first."""
    makers: dict[str, Callable[[Any], Case]] = {
        "resnet50": lambda torch: Case(_vision("resnet50"), (_images(torch, batch, 224),)),
        "convnext-t": lambda torch: Case(_vision("convnext_tiny"), (_images(torch, batch, 224),)),
        "unet": lambda torch: Case(networks.unet(torch), (_images(torch, batch, 256),)),
    }
    for name, make in makers.items():
        last = functools.partial(_channels_last_of, make)
        yield Model(f"{name}-{batch}-bf16", last, other="contiguous_format")
        yield Model(f"{name}-{batch}-tf32", make, dtype="float32", other=LAST)


def _channels_last_of(make: Callable[[Any], Case], torch: Any) -> Case:
    return laid_out(torch, make(torch), LAST)


MODELS: tuple[Model, ...] = (
    Model("llama-8b-prefill-1x2048", llama_prefill(1, 2048)),
    Model("llama-8b-prefill-4x512", llama_prefill(4, 512)),
    Model("llama-8b-decode-1", llama_decode(1)),
    Model("llama-8b-decode-16", llama_decode(16)),
    Model("llama-8b-decode-64", llama_decode(64)),
    Model("mixtral-like", mixtral),
    Model("gpt2", gpt2),
    Model("bert-large", bert_large),
    Model("t5-large", t5_large),
    Model("vit-l", vit_large),
    Model("whisper-encoder", whisper_encoder),
    Model("mamba2", mamba2),
    Model("dlrm", dlrm),
    Model("resnet50", resnet50),
    Model("convnext-b", convnext_base),
    Model("unet", unet),
    *_networks(),
    Model("gpt2", gpt2, trains=True),
    Model("bert-large", bert_large, trains=True),
    Model("vit-l", vit_large, trains=True),
)
