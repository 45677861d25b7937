# Completion of surtax's command line in bash: surtax itself says what may stand there.
_surtax() {
    mapfile -t COMPREPLY < <(command surtax completions bash -- \
        "${COMP_LINE:0:COMP_POINT}" "$2" </dev/null 2>/dev/null)
    # More of the same word follows a name of an option.
    case ${COMPREPLY[0]-} in
    *[=:/@]) compopt -o nospace ;;
    esac
}
complete -o bashdefault -o nosort -F _surtax surtax
