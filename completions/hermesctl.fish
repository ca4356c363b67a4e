# fish completion for hermesctl; put it into ~/.config/fish/completions/hermesctl.fish

function __hermesctl_complete
    env _HERMESCTL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] \
        _TYPER_COMPLETE_ARGS=(commandline -cp) hermesctl 2>/dev/null
end

function __hermesctl_words
    # fish wants the whole word: of --option=value, hermesctl gives the value.
    set -l option (string match -r -- '^--[^=]+=' (commandline -ct))
    for word in (__hermesctl_complete get-args)
        echo "$option$word"
    end
end

complete --command hermesctl --no-files --condition "__hermesctl_complete is-args" \
    --arguments "(__hermesctl_words)"
