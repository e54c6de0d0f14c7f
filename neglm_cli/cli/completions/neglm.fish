# Completion of neglm's subcommands and options in fish; files where neglm has nothing to suggest.
function __neglm_ask
    env _NEGLM_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] _TYPER_COMPLETE_ARGS=(commandline -cp) neglm 2>/dev/null
end
complete --command neglm --no-files --condition '__neglm_ask is-args' --arguments '(__neglm_ask get-args)'
