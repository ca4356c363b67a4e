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

    local IFS=$'\n'
    mapfile -t COMPREPLY < <(
        COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) \
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
