"""The Decision Transformer: the action of each step, from the return that is wanted and from the steps before it.

    r_t = W_r R̂_t/c + b_r + E_t,   u_t = W_s (s_t - μ)/σ + b_s + E_t,   v_t = W_a a_t + b_a + E_t      tokens of a step
    x = dropout(norm([r_1, u_1, v_1, …, r_T, u_T, v_T])),   m times Block
    â_t = W norm(x at u_t) + b,   or its tanh for a vector of numbers               read at the state, before the action

R̂_t: the rewards that are still to come; E_t: one embedding per step of an episode, for all three of its tokens; a_t: a
unit vector of one of several actions, or numbers from -1 to 1. c, μ and σ follow from the episodes: the largest return,
mean and deviation of the states. With `returns=end` rewards move to the last step, so that R̂_t is the whole return at
every step; with `returns=none` the model is given no return, and clones the behavior that it was shown.

Source: Chen et al., arXiv:2106.01345, section 3 and its Algorithm 1, and the authors' program. What differs: any causal
mixers in place of GPT-2's attention, the weights are initialized as in our other models, and the predictions of states
and returns, which the paper does not train either, are left out. Seed 002 prints the triples as (R̂_t, s_{t-1},
a_{t-1}).
"""

from typing import Any, NoReturn, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.arguments import count, describe_value
from seqloom.core.cost import Cost, Per, linear, softmax
from seqloom.core.extras import Extras
from seqloom.core.model import ModelTraits
from seqloom.core.shapes import Ids, Keep, Stream
from seqloom.core.state import LayerState
from seqloom.layers.linear import Linear
from seqloom.models import arguments
from seqloom.models.cost import norm_cost, shared_cost
from seqloom.models.decision_config import TOKENS, DecisionConfig
from seqloom.models.transformer import Transformer
from seqloom.models.verbs import ExtendVerb, ForwardVerb

Layers: TypeAlias = tuple[LayerState, ...]
"""what the layers hold of an episode so far"""


@final
class Decision(Transformer):
    """Chooses the action of each step of an episode. The ids of its verbs are the numbers of the steps, from 0."""

    config: DecisionConfig
    mean: Tensor
    deviation: Tensor

    def __init__(self, config: DecisionConfig, layers: int | None = None) -> None:
        super().__init__(config, layers)
        environment = config.environment
        self.of_return = Linear(1, config.dim)
        self.of_state = Linear(environment.states, config.dim)
        self.of_action = Linear(environment.actions, config.dim)
        for name, numbers, default in (("mean", config.mean, 0.0), ("deviation", config.deviation, 1.0)):
            values = torch.tensor(numbers or (default,) * environment.states)
            self.register_buffer(name, values, persistent=False)
        if not self.token.weight.is_meta:
            self.reset()

    @property
    @override
    def traits(self) -> ModelTraits:
        """It neither generates text nor streams: it reads the last steps of an episode again for each action."""
        return ModelTraits(False, False, self.longest)

    @override
    def forward(
        self,
        ids: Ids,
        keep: Keep | None = None,
        returns: Float[Tensor, "B T"] | None = None,
        states: Float[Tensor, "B T S"] | None = None,
        actions: Tensor | None = None,
    ) -> Float[Tensor, "B T A"]:
        """The action of each step: logits of the A to choose from, or A numbers from -1 to 1. See `decide`."""
        return self.decide(ids, keep, returns, states, actions)[0]

    def decide(
        self,
        ids: Ids,
        keep: Keep | None = None,
        returns: Float[Tensor, "B T"] | None = None,
        states: Float[Tensor, "B T S"] | None = None,
        actions: Tensor | None = None,
    ) -> tuple[Float[Tensor, "B T A"], Extras]:
        """`forward`, and the layers' auxiliary losses and statistics.

        ids (B, T): the numbers of the steps; `returns` (B, T): what is wanted from each step on; `states` (B, T, S);
        `actions`: (B, T) of one of several, or (B, T, A) of numbers from -1 to 1. The action of a step does not depend
        on that step's entry of `actions`. ValueError for what is missing or of another shape.
        """
        x, extras = self.features_with_extras(ids, keep, None, returns, states, actions)
        return self.output(x[:, 1::TOKENS]), extras

    @override
    def features_with_extras(
        self,
        ids: Ids,
        keep: Keep | None = None,
        added: Stream | None = None,
        returns: Float[Tensor, "B T"] | None = None,
        states: Float[Tensor, "B T S"] | None = None,
        actions: Tensor | None = None,
    ) -> tuple[Float[Tensor, "B N D"], Extras]:
        """The stream (B, 3T, D) after the last layer: of the return, the state and the action of each step."""
        if returns is None or states is None or actions is None:
            raise ValueError("a model of kind decision reads the steps of episodes: give returns, states and actions")
        if added is not None:
            raise ValueError("nothing is added to the embeddings of a decision model: leave added out")
        self._check_piece(ids, keep)
        self._check_steps(ids, keep, returns, states, actions)
        ids = ids if keep is None else torch.where(keep, ids, 0)
        tokens = [*self._return_and_state(ids, returns, states), self._action(ids, actions)]
        x = torch.stack(tokens, 2).flatten(1, 2)  # (B, 3T, D)
        token_keep = None if keep is None else keep.repeat_interleave(TOKENS, 1)
        verb = ForwardVerb(None, token_keep, self.call_kind)
        return self._run_layers(self._first_input(x), verb), verb.extras

    def _return_and_state(self, ids: Tensor, returns: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """The embeddings (B, T, D) of the return that is wanted from each step on, r, and of its state, u."""
        scaled_returns = torch.zeros_like(returns) if self.config.returns == "none" else returns / self.config.largest
        scaled_states = (states - self.mean) / self.deviation
        time = self.token(ids)
        r = self.of_return(scaled_returns[..., None].to(self.dtype)) + time
        u = self.of_state(scaled_states.to(self.dtype)) + time
        return r, u

    def _action(self, ids: Tensor, actions: Tensor) -> Tensor:
        """The embedding (B, T, D) of the action of each step, v."""
        if not self.config.environment.continuous:
            actions = nn.functional.one_hot(actions, self.config.environment.actions)
        v: Tensor = self.of_action(actions.to(self.dtype)) + self.token(ids)
        return v

    def next_action(
        self,
        ids: Int[Tensor, " B"],
        returns: Float[Tensor, " B"],
        states: Float[Tensor, "B S"],
        before: Tensor | None,
        memory: Layers | None,
    ) -> tuple[Float[Tensor, "B A"], Layers]:
        """The action of one step, as `decide` has it where it reads the episode from its first step on, and the memory.

        ids (B,): the number of the step; `before`: the actions of the step before it, and `memory` what was returned
        there; None for both in the first step. ValueError where a layer cannot continue from a state.
        """
        if not self.reads_on:
            self._lacks("read an episode step by step")
        layers = tuple(block.start(len(ids)) for block in self.blocks) if memory is None else memory
        ids = ids[:, None]
        tokens = list(self._return_and_state(ids, returns[:, None], states[:, None]))
        if before is not None:
            tokens.insert(0, self._action(ids - 1, before[:, None]))
        x = self._first_input(torch.cat(tokens, 1))
        verb = ExtendVerb(None, None, layers, self.call_kind)
        x = self._run_layers(x, verb)
        return self.output(x[:, -1:])[:, 0], verb.states

    @override
    def output(self, x: Stream) -> Tensor:
        logits = super().output(x)
        return logits.tanh() if self.config.environment.continuous else logits

    @override
    def exits(self, ids: Ids, keep: Keep | None = None) -> NoReturn:
        self._lacks("leave layers out")

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """The price of one row of T steps, the action of each of which is predicted."""
        count("T", T, least=1)
        if per != "sequence":
            raise ValueError("a decision model reads the steps of a window together: it has no price of a token")
        config = self.config
        environment = config.environment
        returns = linear(T, 1, config.dim, bias=True)
        states = linear(T, environment.states, config.dim, bias=True)
        actions = linear(T, environment.actions, config.dim, bias=True)
        times = Cost(add=TOKENS * T * config.dim, params=config.vocab * config.dim, path=("addition",))
        numbers = environment.states * T
        scaling = Cost(add=numbers, div=numbers + T, path=("addition", "division"))
        embedding = returns.parallel() + states + actions.parallel() + times + scaling.parallel()
        head = linear(T, config.dim, environment.actions, bias=config.head_bias)
        tanh = Cost(other=T * environment.actions, path=("other",))
        activation = tanh if environment.continuous else softmax(T, environment.actions)
        return embedding + self.inner_cost(T) + head + activation

    @override
    def inner_cost(self, T: int) -> Cost:
        """The price of T steps of all layers and of the norms around them."""
        count("T", T)
        config = self.config
        tokens = TOKENS * T
        blocks = [self.blocks[config.like(layer)] for layer in range(config.depth)]
        total = shared_cost(blocks)
        if config.embed_norm:
            total += norm_cost(tokens, config.dim, config.norm)
        if config.sublayers == "reversible":
            total += Cost(add=tokens * config.dim, div=tokens * config.dim, path=("addition", "division"))
        total += sum((block.cost(tokens, "sequence") for block in blocks), Cost())
        if config.has_final_norm:
            total += norm_cost(T, config.dim, config.norm)
        return total

    def _check_steps(self, ids: Tensor, keep: Tensor | None, returns: Any, states: Any, actions: Any) -> None:
        """Raises TypeError or ValueError, in one line, unless all fit steps (B, T) and the environment."""
        environment = self.config.environment
        shapes = {"returns": (returns, ()), "states": (states, (environment.states,))}  # without B and T
        shapes["actions"] = (actions, (environment.actions,) if environment.continuous else ())
        for name, (tensor, last_sizes) in shapes.items():
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{name} are a tensor, not {describe_value(tensor)}")
            numbers = name != "actions" or environment.continuous
            if tensor.is_floating_point() != numbers:
                kind = "numbers" if numbers else f"whole numbers below {environment.actions}"
                learned = "continuous" if environment.continuous else "discrete"
                raise ValueError(
                    f"{name} are {kind}, not {describe_value(tensor)}: the model learned {learned} actions"
                )
            shape = (*ids.shape, *last_sizes)
            if tensor.shape != shape or tensor.device != ids.device:
                raise ValueError(f"{name} are {shape} on {ids.device}, not {describe_value(tensor)}")
        if not environment.continuous:
            arguments.check_actions(actions if keep is None else torch.where(keep, actions, 0), environment.actions)
