"""Chat templates: the Jinja text that a model carries, rendered in a sandbox."""

from __future__ import annotations

import datetime
import json
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
        _require_jinja()
        try:
            return str(
                _environment()
                .from_string(self.source)
                .render(
                    messages=list(messages),
                    tools=None,
                    documents=None,
                    add_generation_prompt=True,
                    bos_token=self.bos_token,
                    eos_token=self.eos_token,
                )
            )
        # A template is a program of the model's author: what it raises is a property of the model.
        except Exception as error:
            raise UsageError(
                "AI-MODEL-022",
                f"the chat template of {self.origin} failed: {error}",
                fix="pass --raw to use the prompt as it stands",
            ) from error


def _require_jinja() -> None:
    try:
        import jinja2.sandbox  # noqa: F401
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-MODEL-015",
            "rendering a chat template needs the package jinja2",
            fix="pip install 'ascend-infer[model]', or pass --raw",
        ) from error


def _environment() -> Any:
    """A sandbox with the options, tag, filter and functions that Hugging Face templates expect."""
    import jinja2
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks what the assistant says, for training; the text is its body."""

        tags = {"generation"}  # noqa: RUF012 - as the base class declares it

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    def strftime_now(layout: str) -> str:
        return datetime.datetime.now().strftime(layout)

    def to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
        # Jinja's own escapes what is special in HTML.
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, "jinja2.ext.loopcontrols"],
    )
    functions: dict[str, Any] = {"raise_exception": refuse, "strftime_now": strftime_now}
    environment.globals.update(functions)
    environment.filters["tojson"] = to_json
    return environment
