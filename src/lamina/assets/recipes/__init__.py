"""Corpora that are derived here: public files at a pinned commit, a function, and the counts that have to come out.

One module per corpus. A recipe is deterministic: the same files give the same corpus, byte for byte. Modules of this
package parse their origins themselves, as far as they need; the readers of `lamina.corpora` read what they write.
"""
