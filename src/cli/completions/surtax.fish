# Completion of surtax's command line in fish: surtax itself says what may stand there.
function __surtax_answer
    command surtax completions fish -- (commandline --current-process --tokenize \
        --cut-at-cursor) (commandline --current-token --cut-at-cursor) 2>/dev/null
end
complete --command surtax --keep-order --no-files --arguments '(__surtax_answer)'
