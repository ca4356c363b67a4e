"""How the screen is laid out. It has no colours of its own: the terminal's are used throughout."""

STYLE = """
Screen { background: ansi_default; color: ansi_default; }
#head { height: 1; text-style: reverse; padding: 0 1; }
#runs-title, .title { height: auto; text-style: bold; }
Listing {
    background: ansi_default; color: ansi_default;
    height: auto; overflow-x: hidden; scrollbar-size: 1 1;
    scrollbar-color: ansi_bright_black; scrollbar-background: ansi_default;
}
Listing > .datatable--header {
    background: ansi_default; color: ansi_default; text-style: bold underline;
}
Listing > .datatable--odd-row, Listing > .datatable--even-row { background: ansi_default; }
Listing > .datatable--cursor {
    background: ansi_default; color: ansi_default; text-style: none;
}
Listing:focus > .datatable--cursor { text-style: reverse; }
#nodes { max-height: 40%; }
#approvals { max-height: 30%; }
#approvals-title { height: 1; text-style: bold reverse; width: auto; padding: 0 1; }
#runs { height: 1fr; min-height: 3; }
Footer, Footer * { background: ansi_default; color: ansi_default; }
FooterKey .footer-key--key { text-style: reverse; background: ansi_default; color: ansi_default; }
Dialog { align: center middle; background: transparent; }
.box {
    width: 100%; max-width: 100; height: auto; max-height: 100%;
    border: solid ansi_default; background: ansi_default; padding: 0 1;
}
.box Static { height: auto; }
.text { height: auto; max-height: 12; scrollbar-size: 1 1; }
Input { background: ansi_default; color: ansi_default; border: none; height: 1; }
Toast {
    background: ansi_default; color: ansi_default; border: solid ansi_default; padding: 0 1;
}
"""
