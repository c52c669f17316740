"""Chat templates: the Jinja text that a model carries, rendered in a sandbox."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from kernels_npu.errors import EnvironmentProblem, UsageError

#: One turn of a conversation: `role` and `content`.
Message = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ChatTemplate:
    """A template with the special tokens it may name; `origin` says where it came from."""

    source: str
    origin: str
    bos_token: str = ""
    eos_token: str = ""

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation as the model's prompt, ending where the assistant's answer starts.

        Raises:
            UsageError: AI-MODEL-022 when the template is malformed or refuses the messages.
            EnvironmentProblem: AI-MODEL-015 when Jinja is not installed.
        """
        try:
            import jinja2
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError as error:
            raise EnvironmentProblem(
                "AI-MODEL-015",
                "rendering a chat template needs the package jinja2",
                fix="pip install 'ascend-infer[model]', or pass --raw",
            ) from error

        def refuse(message: str) -> NoReturn:
            raise jinja2.TemplateError(message)

        def strftime_now(layout: str) -> str:
            return datetime.datetime.now().strftime(layout)

        # The options that Hugging Face templates are written for.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        names: dict[str, Any] = {"raise_exception": refuse, "strftime_now": strftime_now}
        environment.globals.update(names)
        try:
            return environment.from_string(self.source).render(
                messages=list(messages),
                add_generation_prompt=True,
                bos_token=self.bos_token,
                eos_token=self.eos_token,
            )
        except jinja2.TemplateError as error:
            raise UsageError(
                "AI-MODEL-022",
                f"the chat template of {self.origin} failed: {error}",
                fix="pass --raw to use the prompt as it stands",
            ) from error
