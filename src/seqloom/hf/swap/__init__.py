"""Attention replaced inside models of transformers: GPT-2, Llama and its relatives, GPT-NeoX, BERT, ViT, T5's encoder.

model.swap(…)     a model of transformers with mixers of seqloom in the place of attention
families.py       where each family has its attention, and what its settings say of it
attention.py      the module that stands in the place of attention, and calls the mixer
masks.py          which positions are tokens, from every form of a mask
classes.py        the classes of swapped models and their config, which transformers' Auto classes know
"""
