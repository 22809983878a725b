"""Layers of torch.nn: convolutions, normalisations, pools, recurrent layers, attention, in both modes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torch_modules.registry import odd


def layer(name: str, make: Any, *inputs: Any, **options: Any) -> None:
    """Register a layer that torch has, around which there is something to fuse."""

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = make()

        def forward(self, *args: Any) -> Any:
            return self.layer(*args)

    odd(*inputs, name=f"layer_{name}", **options)(Around)


def evaluated(make: Any) -> Any:
    """The same in evaluation, with buffers that are none of the first values."""

    def made() -> Any:
        module = make()
        for buffer in module.buffers():
            if buffer.is_floating_point():
                buffer.uniform_(0.5, 1.5)
        return module.eval()

    return made


IMAGE = "2,4,6,6"
BLOCK = "2,4,3,4,3"
LINE = "2,4,9"

layer("conv1d", lambda: nn.Conv1d(4, 6, 3, padding=1), LINE)
layer("conv1d_same", lambda: nn.Conv1d(4, 6, 4, padding="same"), LINE)
layer("conv2d_grouped", lambda: nn.Conv2d(4, 8, 3, groups=2, bias=False), IMAGE)
layer("conv2d_depthwise", lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1), IMAGE)
layer(
    "conv2d_strided", lambda: nn.Conv2d(4, 3, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), IMAGE
)
layer("conv2d_alone", lambda: nn.Conv2d(4, 3, 3), "4,6,6")
layer("conv2d_reflected", lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect"), IMAGE)
layer("conv2d_circular", lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular"), IMAGE)
layer("conv2d_replicated", lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="replicate"), IMAGE)
layer(
    "conv2d_channels_last", lambda: nn.Conv2d(4, 3, 3).to(memory_format=torch.channels_last), f"{IMAGE}>last"
)
layer("conv2d_bf16", lambda: nn.Conv2d(4, 3, 1).bfloat16(), f"bf16:{IMAGE}")
layer("conv3d", lambda: nn.Conv3d(4, 3, 2), BLOCK)
layer("conv_transpose1d", lambda: nn.ConvTranspose1d(4, 3, 3, stride=2, output_padding=1), LINE)
layer("conv_transpose2d", lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1), IMAGE)
layer("conv_transpose2d_grouped", lambda: nn.ConvTranspose2d(4, 4, 2, groups=2, dilation=2), IMAGE)
layer("conv_transpose3d", lambda: nn.ConvTranspose3d(4, 2, 2), BLOCK)


def gradients(name: str, x: str, w: str, made: str, *geometry: Any) -> None:
    """Register the gradients of a convolution: its geometry is as in `aten.convolution_backward`."""

    def forward(self: nn.Module, gradient: Any, x: Any, w: Any) -> Any:
        outputs = [gradient.shape[1]]
        call = torch.ops.aten.convolution_backward
        return call(gradient, x, w, outputs, *geometry, [True, True, True])

    odd(made, x, w, name=f"gradients_{name}")(type("Gradients", (nn.Module,), {"forward": forward}))


gradients("conv2d", IMAGE, "6,4,3,3", "2,6,6,6", [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
gradients("conv2d_strided", "3,4,8,7", "6,2,3,2", "3,6,4,7", [2, 1], [1, 1], [1, 2], False, [0, 0], 2)
gradients("conv1d", "4,4,9", "2,4,4", "4,2,3", [2], [0], [1], False, [0], 1)
gradients("conv3d", BLOCK, "3,4,2,1,3", "2,3,2,4,3", [1] * 3, [0, 0, 1], [1] * 3, False, [0] * 3, 1)
gradients("conv2d_1x1", "2,4,3,5", "6,4,1,1", "2,6,3,5", [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
gradients("conv2d_1x1_strided", "2,4,5,6", "3,4,1,1", "2,3,3,2", [2, 3], [0, 0], [1, 1], False, [0, 0], 1)
gradients("conv1d_1_bf16", "bf16:2,4,5", "bf16:6,4,1", "bf16:2,6,5", [1], [0], [1], False, [0], 1)
gradients("conv_transpose1d_1", "2,4,5", "4,3,1", "2,3,5", [1], [0], [1], True, [0], 1)
gradients("conv_transpose2d", IMAGE, "4,3,3,3", "2,6,12,12", [2, 2], [1, 1], [1, 1], True, [1, 1], 2)
layer("max_pools", lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, ceil_mode=True)), IMAGE)
layer("max_pool_dilated", lambda: nn.MaxPool2d(2, 1, dilation=2), IMAGE)
layer("max_pool_with_indices", lambda: nn.MaxPool2d(2, return_indices=True), IMAGE)
layer("max_pool1d", lambda: nn.MaxPool1d(3, 2, 1), LINE)
layer("max_pool3d", lambda: nn.MaxPool3d(2), BLOCK)
layer("avg_pool", lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE)
layer("avg_pool_ceil", lambda: nn.AvgPool2d(4, 3, ceil_mode=True), IMAGE)
layer("avg_pool_divisor", lambda: nn.AvgPool2d(2, divisor_override=3), IMAGE)
layer("avg_pool1d", lambda: nn.AvgPool1d(2), LINE)
layer("avg_pool3d", lambda: nn.AvgPool3d(2, padding=1), BLOCK)
layer("adaptive_avg_pool", lambda: nn.AdaptiveAvgPool2d((3, 1)), IMAGE)
layer("adaptive_avg_pool_uneven", lambda: nn.AdaptiveAvgPool2d((4, 5)), IMAGE)
layer("adaptive_avg_pool_none", lambda: nn.AdaptiveAvgPool2d((None, 2)), IMAGE)
layer("adaptive_max_pool", lambda: nn.AdaptiveMaxPool2d(2), IMAGE)
layer("lp_pool", lambda: nn.LPPool2d(2, 2), IMAGE)
layer("unpool", lambda: nn.MaxUnpool2d(2), "1,2,2,2", lambda: torch.arange(8).view(1, 2, 2, 2) % 4 * 2)
layer("layer_norm", lambda: nn.LayerNorm((3, 4)), "2,3,4", gradients=True)
layer("layer_norm_plain", lambda: nn.LayerNorm(4, elementwise_affine=False, eps=0.1), "2,3,4")
layer("layer_norm_no_bias", lambda: nn.LayerNorm(4, bias=False), "4")
layer("rms_norm", lambda: nn.RMSNorm(4), "2,3,4")
layer("rms_norm_of_halves", lambda: nn.RMSNorm(4, eps=1e-3).half(), "f16:2,3,4")
layer("group_norm", lambda: nn.GroupNorm(2, 4), IMAGE, gradients=True)
layer("group_norm_of_vectors", lambda: nn.GroupNorm(2, 4, affine=False), "3,4")
layer("instance_norm", lambda: nn.InstanceNorm2d(4, affine=True), IMAGE)
layer("instance_norm_tracking", lambda: nn.InstanceNorm1d(4, track_running_stats=True), LINE)
layer("instance_norm_tracked", evaluated(lambda: nn.InstanceNorm1d(4, track_running_stats=True)), LINE)
layer("instance_norm_alone", lambda: nn.InstanceNorm1d(4), "4,9")
layer("batch_norm", lambda: nn.BatchNorm2d(4), IMAGE, gradients=True)
layer("batch_norm_evaluated", evaluated(lambda: nn.BatchNorm2d(4)), IMAGE)
layer("batch_norm_no_statistics", lambda: nn.BatchNorm2d(4, track_running_stats=False), IMAGE)
layer("batch_norm_of_vectors", lambda: nn.BatchNorm1d(4, affine=False), "5,4")
layer("batch_norm_of_halves", lambda: nn.BatchNorm1d(4).half(), "f16:5,4")
layer("batch_norm_mixed", evaluated(lambda: nn.BatchNorm1d(4)), "5,4")
layer("local_response_norm", lambda: nn.LocalResponseNorm(2), IMAGE)
layer("spectral_norm", lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)).eval(), "2,4")
layer("weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), "2,4")
layer("lstm", lambda: nn.LSTM(4, 3), "5,2,4")
layer("lstm_both_ways", lambda: nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True).eval(), "2,5,4")
layer("gru", lambda: nn.GRU(4, 3, batch_first=True), "2,5,4")
layer("rnn", lambda: nn.RNN(4, 3), "5,2,4")
layer("cells", lambda: nn.LSTMCell(4, 3), "2,4")
layer("gru_cell", lambda: nn.GRUCell(4, 3), "2,4", "2,3")
layer("multihead_attention", lambda: nn.MultiheadAttention(4, 2, batch_first=True), "2,3,4", "2,5,4", "2,5,4")
layer("multihead_attention_of_itself", lambda: nn.MultiheadAttention(4, 2), "=3,2,4", "=3,2,4", "=3,2,4")
layer("encoder", lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True).eval(), "2,3,4")
layer("decoder", lambda: nn.TransformerDecoderLayer(4, 2, 8, 0.1, norm_first=True).eval(), "3,2,4", "5,2,4")
layer(
    "dropout_evaluated",
    lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.AlphaDropout(0.2)).eval(),
    "3,4",
)
layer("dropout_training", lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU()), "3,4")
layer("dropout_of_channels", lambda: nn.Sequential(nn.Dropout2d(0.5), nn.ReLU()), IMAGE)
layer("prelu", lambda: nn.PReLU(4), IMAGE)
layer("rrelu", lambda: nn.RReLU().eval(), "3,4")
layer("softmaxes", lambda: nn.Sequential(nn.Softmax2d(), nn.Softmin(-1)), IMAGE)
layer("upsample", lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.ReLU()), IMAGE)
layer("bilinear", lambda: nn.Bilinear(4, 3, 2), "5,4", "5,3")
layer("flatten", lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (4, 36)), nn.Tanh()), IMAGE)
layer("cosine", lambda: nn.CosineSimilarity(), "3,4", "3,4")
layer(
    "pads",
    lambda: nn.Sequential(nn.ZeroPad2d(1), nn.ReflectionPad2d((1, 0, 2, 0)), nn.ConstantPad2d(1, 2.0)),
    IMAGE,
)
layer("glu", lambda: nn.Sequential(nn.Linear(4, 8), nn.GLU()), "3,4", gradients=True)
layer(
    "block",
    lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1)),
    IMAGE,
)
layer("mlp", lambda: nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 4)), "3,4", gradients=True)


class BatchNormsThatAverageAllBatches(nn.Module):
    """Running statistics are means over all batches so far, of which there have been some."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.BatchNorm2d(3, momentum=None)
        self.second = nn.BatchNorm1d(3, affine=False, momentum=None)
        self.first.num_batches_tracked.fill_(4)
        self.train()

    def forward(self, x: Any) -> Any:
        return self.second(torch.relu(self.first(x)).flatten(2))


odd("4,3,5,2")(BatchNormsThatAverageAllBatches)
