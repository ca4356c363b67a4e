# fish completion for hermesctl; put it into ~/.config/fish/completions/hermesctl.fish

function __hermesctl_complete
    env _HERMESCTL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] \
        _TYPER_COMPLETE_ARGS=(commandline -cp) hermesctl 2>/dev/null
end

complete --command hermesctl --no-files --condition "__hermesctl_complete is-args" \
    --arguments "(__hermesctl_complete get-args)"
