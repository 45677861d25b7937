# Completion of surtax's command line in fish: surtax itself says what may stand there.
function __surtax_words
    commandline --current-process --tokenize --cut-at-cursor
end
function __surtax_answer
    command surtax completions fish -- (__surtax_words) \
        (commandline --current-token --cut-at-cursor) </dev/null 2>/dev/null
end
complete --command surtax --keep-order --no-files --arguments '(__surtax_answer)'
complete --command surtax --force-files --condition 'contains -- -- (__surtax_words)'
