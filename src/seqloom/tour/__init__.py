"""From attention to Extractors in ten minutes: what three trained models do with one sentence, as a page to open.

    equations   attention, the HE Extractor and the gated delta rule in a few lines each, to copy
    sentence    at most twelve tokens, one of which can be changed
    layers      what the first layer of each model computes from it
    content     all that the page shows, as plain numbers
    page        the page: one file that needs no network
    models      the three models: given, or trained here in half a minute

`seqloom tour` writes the page, docs/ten_minutes.md and examples/tour.ipynb call the same functions.
"""
