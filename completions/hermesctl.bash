# bash completion for hermesctl; source it, or put it into
# ~/.local/share/bash-completion/completions/hermesctl

_hermesctl_completion() {
    local IFS=$'\n'
    COMPREPLY=( $( COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \
                   _HERMESCTL_COMPLETE=complete_bash "$1" 2>/dev/null ) )
}

complete -o default -F _hermesctl_completion hermesctl
