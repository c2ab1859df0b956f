# A fair comparison: next to each mixer an attention model that takes the same time per step, on identical batches, over
# three seeds; the table says which differences are significant. After Ctrl-C the same command continues.
#
#     sh examples/fair_comparison.sh books/ runs/fair
seqloom compare attention:heads=4 he rwkv mamba --match time --peer attention:heads=4 --seeds 3 \
    --data "$1" --out "$2"
