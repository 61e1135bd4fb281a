complete --keep-order --exclusive --command aynig --arguments "(AYNIG_COMPLETE=fish aynig -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
