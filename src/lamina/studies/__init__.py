"""Studies: many models, corpora and analyses from one file; one table, one page, an atlas, and what can be shared.

declaration  the study file, checked against what analyses declare
plan         its cells: requests that are run, cached and found again like any other
table        the numbers of all cells in one table
running      cells run here, in processes, by Ray or as SLURM jobs
summary      what a study says: models compared, findings, the page
atlas        a static site of studies whose cells can be run again
sharing      a result as one file, and what is sent to the hub
tracking     metrics handed to trackers of experiments
"""
