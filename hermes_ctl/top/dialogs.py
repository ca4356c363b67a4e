"""What `top` shows in front of its screen: an approval, a question, a line to type, a text to read."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from hermes_ctl.runs.happenings import Approval
from hermes_ctl.top.rows import Asking, neutral, paragraph

_ALWAYS = "always allows every command of this kind on the node, from now on, in every run."
_BLIND = "Allow a command that you have not seen?"
_UNKNOWN = (
    "The command is not known here: this Hermes tells it in the run's event stream alone, and "
    "nobody on this machine reads that."
)


class Dialog(ModalScreen[str | None]):
    """A box in front of the screen. It gives what was chosen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back")]

    def action_leave(self) -> None:
        self.dismiss(None)


class ApprovalDialog(Dialog):
    """Shows the whole command and why it was flagged, and gives a choice that the node offers.

    `always` writes a rule on the node that holds for ever, so it is asked twice; and so is every
    yes to a command that is not known here.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "choose('once')", "once"),
        Binding("s", "choose('session')", "session"),
        Binding("a", "choose('always')", "always"),
        Binding("d", "choose('deny')", "deny"),
        Binding("y", "confirm", "yes"),
    ]

    def __init__(self, asking: Asking) -> None:
        super().__init__()
        self.asking = asking
        self._unconfirmed: str | None = None

    @property
    def _approval(self) -> Approval:
        return self.asking.waiting.approval

    def compose(self) -> ComposeResult:
        entry, approval = self.asking.live.entry, self._approval
        reason = neutral(approval.description, 300) or "no reason given"
        with Vertical(classes="box"):
            yield Static(
                f"{neutral(entry.run_id)} on {neutral(entry.node)} asks",
                classes="title",
                markup=False,
            )
            yield Static(f"why  {reason}\n", markup=False)
            with VerticalScroll(classes="text"):
                yield Static(paragraph(approval.command) if approval.command else Text(_UNKNOWN))
            yield Static(self._offered(), id="choices", markup=False)

    def _offered(self) -> str:
        keys = [f"{word[0]}  {word}" for word in self._approval.choices]
        return "\n" + "     ".join([*keys, "Esc  leave it waiting"])

    def action_choose(self, choice: str) -> None:
        if choice not in self._approval.choices or self._unconfirmed is not None:
            return
        if choice == "always":
            self._ask_again(choice, _ALWAYS)
        elif choice != "deny" and not self._approval.command:
            self._ask_again(choice, _BLIND)
        else:
            self.dismiss(choice)

    def action_confirm(self) -> None:
        if self._unconfirmed is not None:
            self.dismiss(self._unconfirmed)

    def action_leave(self) -> None:
        if self._unconfirmed is None:
            self.dismiss(None)
            return
        self._unconfirmed = None
        self.query_one("#choices", Static).update(self._offered())

    def _ask_again(self, choice: str, question: str) -> None:
        self._unconfirmed = choice
        told = f"\n{question}\ny  yes, {choice}     Esc  back"
        self.query_one("#choices", Static).update(told)


class ConfirmDialog(Dialog):
    """A question that `y` answers with yes; it gives `yes` then."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "yes"),
        Binding("n", "leave", "no"),
    ]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(self._title, classes="title", markup=False)
            yield Static(self._text)
            yield Static("\ny  yes     Esc  no", markup=False)

    def action_yes(self) -> None:
        self.dismiss("yes")


class LineDialog(Dialog):
    """Asks for one line of text, and gives it."""

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(self._title, classes="title", markup=False)
            yield Static(self._text)
            yield Input()
            yield Static("Enter  send     Esc  back", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class TextDialog(Dialog):
    """A text to read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,q", "leave", "Back")]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(self._title, classes="title", markup=False)
            with VerticalScroll(classes="text"):
                yield Static(self._text)
            yield Static("\nEsc  back", markup=False)
