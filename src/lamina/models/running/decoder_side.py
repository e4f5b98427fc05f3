"""The decoder of an encoder-decoder as a model of its own.

Not in `huggingface`, which estimates import too: importing transformers' model classes takes longer than all the rest.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from lamina.errors import ModelError
from lamina.models.running.tokens import InputFormat, WordTokenizer, token_id

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class DecoderConfig(PreTrainedConfig):
    """The sizes of the decoder, and the config of the whole model."""

    model_type = "lamina_decoder_side"

    def __init__(self, whole: PreTrainedConfig | None = None, closing: tuple[int, ...] = (), **settings: Any) -> None:
        self.whole, self.closing = whole, closing
        self.parts: tuple[PreTrainedConfig, ...] = ()
        """The configs that the parts of the running model read."""
        super().__init__(**settings)

    @property
    def _attn_implementation(self) -> str | None:
        return self.parts[0]._attn_implementation if self.parts else None

    @_attn_implementation.setter
    def _attn_implementation(self, value: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        for part in self.parts:
            part._attn_implementation = value

    def to_dict(self) -> dict[str, Any]:
        """As a fingerprint covers it: the whole model's config."""
        whole = {} if self.whole is None else self.whole.to_dict()
        return whole | {"side": "decoder", "closing": list(self.closing)}


class DecoderSide(PreTrainedModel):
    """An encoder-decoder as a model of the text that its decoder reads, one token behind what it would predict.

    Called with the decoder's input: a start token and the text. The encoder gets the text and what closes it, as in
    training. Returned are the states and the self-attention of the decoder.
    """

    config_class = DecoderConfig
    config: DecoderConfig
    _supports_sdpa = True

    def __init__(self, config: DecoderConfig, whole: PreTrainedModel | None = None) -> None:
        super().__init__(config)
        # Without a model, one with new random weights, as for a random-weights twin.
        self.both: Any = AutoModel.from_config(copy.deepcopy(config.whole)) if whole is None else whole
        configs = (part.config for part in self.both.modules() if isinstance(part, PreTrainedModel))
        config.parts = tuple({id(settings): settings for settings in configs}.values())

    @property
    def decoder(self) -> Any:
        """The half whose states and maps are returned."""
        return self.both.get_decoder()

    def get_input_embeddings(self) -> torch.nn.Module:
        """The table that the decoder reads from."""
        return self.decoder.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        **_: Any,
    ) -> BaseModelOutput:
        """The decoder's states and self-attention on its input."""
        read, mask = self._encoder_input(input_ids, attention_mask)
        out = self.both(
            input_ids=read,
            attention_mask=mask,
            decoder_input_ids=input_ids,
            decoder_attention_mask=attention_mask,
            output_hidden_states=output_hidden_states,
            output_attentions=output_attentions,
            use_cache=False,
            return_dict=True,
        )
        return BaseModelOutput(
            last_hidden_state=out.last_hidden_state,
            hidden_states=out.decoder_hidden_states if output_hidden_states else None,
            attentions=out.decoder_attentions if output_attentions else None,
        )

    def _encoder_input(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """What the encoder reads: each row without the start token, closed as the tokenizer closes a text."""
        closing = torch.tensor(self.config.closing, dtype=ids.dtype, device=ids.device)
        rows = [torch.cat([row[1 : int(seen.sum())], closing]) for row, seen in zip(ids, mask, strict=True)]
        width = max(len(row) for row in rows)
        read = ids.new_full((len(rows), width), self.config.pad_token_id or 0)
        seen = mask.new_zeros((len(rows), width))
        for b, row in enumerate(rows):
            read[b, : len(row)], seen[b, : len(row)] = row, 1
        return read, seen


def decoder_of(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, reading: InputFormat, name: str
) -> tuple[DecoderSide, InputFormat]:
    """The decoder of a model without its head, and how its texts are read."""
    config: Any = model.config
    start = token_id(config.decoder_start_token_id)
    if start is None:
        start = token_id(config.bos_token_id)
    if start is None:
        raise ModelError(f"{name}: its config has no decoder_start_token_id, so it is not known how its texts begin")
    if reading.chat:
        raise ModelError(f"{name}: a chat template is for decoders alone; leave out --chat or :decoder")
    _, closing = WordTokenizer(tokenizer, reading).around
    sizes = DecoderConfig(
        copy.deepcopy(config),
        closing,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        max_position_embeddings=getattr(config, "max_position_embeddings", None),
        pad_token_id=config.pad_token_id,
        architectures=config.architectures,
    )
    side = DecoderSide(sizes, model)
    side.config._commit_hash = getattr(config, "_commit_hash", None)
    return side, reading._replace(decoder_start=start)
