#compdef surtax
# Completion of surtax's command line in zsh: surtax itself says what may stand there.
_surtax() {
    local -a whole begun
    local value help said
    while IFS=$'\t' read -r value help; do
        said=${${value//\\/\\\\}//:/\\:}${help:+:${help//\\/\\\\}}
        # More of the same word follows a name of an option.
        case $value in
        *[=:/@]) begun+=("$said") ;;
        *) whole+=("$said") ;;
        esac
    done < <(command surtax completions zsh -- \
        "${(@Q)words[1,CURRENT - 1]}" "${(Q)PREFIX}" </dev/null 2>/dev/null)
    if (( $#whole + $#begun == 0 )); then
        _default
        return
    fi
    (( $#whole )) && _describe -V 'value' whole
    (( $#begun )) && _describe -V 'value' begun -S ''
}
if [[ ${funcstack[1]-} == _surtax ]]; then
    _surtax "$@"
else
    compdef _surtax surtax
fi
