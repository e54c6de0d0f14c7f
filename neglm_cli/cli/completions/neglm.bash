# Completion of neglm's subcommands and options in bash. neglm itself answers, so that the answers are always current.
_neglm() {
    local IFS=$'\n'
    COMPREPLY=($(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _NEGLM_COMPLETE=complete_bash "$1" 2>/dev/null))
}
complete -o default -F _neglm neglm
