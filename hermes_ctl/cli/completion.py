"""`hermesctl completion`: the scripts by which a shell completes `hermesctl`.

The scripts ask `hermesctl` itself, by the variables of typer's own completion. They are written
here because a zsh script has to work both when it is sourced and as `_hermesctl` in `$fpath`.
"""

from __future__ import annotations

from hermes_ctl.cli.grammar import group
from hermes_ctl.cli.options import View

BASH = """\
# bash completion for hermesctl; source it, or put it into
# ~/.local/share/bash-completion/completions/hermesctl

_hermesctl_completion() {
    # bash has taken lab:NAME and --option=value apart at the signs: put them together again.
    local words=() word index rest=$COMP_LINE
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        if ((index)) && [[ $rest != [[:space:]]* ]] &&
            [[ $word == [:=]* || ${words[-1]} == *[:=] ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
        rest=${rest#*"$word"}
    done

    local IFS=$'\\n'
    mapfile -t COMPREPLY < <(
        COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) \\
            _HERMESCTL_COMPLETE=complete_bash "$1" 2>/dev/null
    )
    [[ ${COMPREPLY[*]} ]] || COMPREPLY=() # not one empty word: bash offers files then
    word=${words[-1]}
    [[ $word == -*=* ]] && word=${word#*=}
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
    fi
}

complete -o default -F _hermesctl_completion hermesctl
"""

ZSH = """\
#compdef hermesctl
# zsh completion for hermesctl; source it, or put it as _hermesctl into a folder of $fpath

_hermesctl() {
    compset -P '--[a-z-]#=' # of --option=value, the value is completed
    eval "$( _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" \\
             _HERMESCTL_COMPLETE=complete_zsh hermesctl 2>/dev/null )"
}

if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
    _hermesctl "$@"
else
    compdef _hermesctl hermesctl
fi
"""

FISH = """\
# fish completion for hermesctl; put it into ~/.config/fish/completions/hermesctl.fish

function __hermesctl_complete
    env _HERMESCTL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] \\
        _TYPER_COMPLETE_ARGS=(commandline -cp) hermesctl 2>/dev/null
end

function __hermesctl_words
    # fish wants the whole word: of --option=value, hermesctl gives the value.
    set -l option (string match -r -- '^--[^=]+=' (commandline -ct))
    for word in (__hermesctl_complete get-args)
        echo "$option$word"
    end
end

complete --command hermesctl --no-files --condition "__hermesctl_complete is-args" \\
    --arguments "(__hermesctl_words)"
"""

# The file of each shell in completions/.
FILES = {"hermesctl.bash": BASH, "_hermesctl": ZSH, "hermesctl.fish": FISH}

app = group("Print the completion script of a shell.")


@app.command("bash")
def bash(view: View) -> None:
    """Print the script for bash: source <(hermesctl completion bash)."""
    view.screen.write(BASH)


@app.command("zsh")
def zsh(view: View) -> None:
    """Print the script for zsh: source <(hermesctl completion zsh)."""
    view.screen.write(ZSH)


@app.command("fish")
def fish(view: View) -> None:
    """Print the script for fish: hermesctl completion fish | source."""
    view.screen.write(FISH)
